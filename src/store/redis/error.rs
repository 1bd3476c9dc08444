//! What goes wrong between us and Redis.

use std::fmt;
use std::sync::Arc;

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Why a [`RedisStore`](super::RedisStore) cannot be made, or could not decide. As text it names no key, address
/// or password; its source, what the client says, may name an address.
#[derive(Clone, Debug)]
pub struct RedisStoreError {
    kind: Kind,
    source: Option<Arc<RedisError>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Url,
    Cluster,
    Timeout,
    Down,
    Overload,
    Disconnected,
    NoScript,
    Unavailable,
    Denied,
    Server,
    Reply(&'static str),
    NoRuntime,
}

impl Kind {
    /// What a script met with, in words: that it lacks a right, and until Redis 7 anything.
    fn of_script(detail: &str) -> Self {
        let says = |words: &[&str]| words.iter().any(|words| detail.contains(words));
        if says(&["ACL failure in script", "can't run this command", "-NOPERM"]) {
            Self::Denied
        } else if says(&["-READONLY", "-MISCONF", "-NOREPLICAS", "-MASTERDOWN", "-LOADING"]) {
            Self::Unavailable
        } else {
            Self::Server
        }
    }
}

impl RedisStoreError {
    pub(super) const fn new(kind: Kind) -> Self {
        Self { kind, source: None }
    }

    pub(super) const fn reply(what: &'static str) -> Self {
        Self::new(Kind::Reply(what))
    }

    pub(super) fn of(error: RedisError) -> Self {
        let kind = match (error.kind(), error.code()) {
            (ErrorKind::Server(ServerErrorKind::NoScript), _) => Kind::NoScript,
            (
                ErrorKind::Server(
                    ServerErrorKind::Moved
                    | ServerErrorKind::Ask
                    | ServerErrorKind::CrossSlot
                    | ServerErrorKind::ClusterDown
                    | ServerErrorKind::TryAgain,
                ),
                _,
            ) => Kind::Cluster,
            (
                ErrorKind::Server(
                    ServerErrorKind::BusyLoading | ServerErrorKind::MasterDown | ServerErrorKind::ReadOnly,
                ),
                _,
            )
            | (ErrorKind::MasterNameNotFoundBySentinel | ErrorKind::NoValidReplicasFoundBySentinel, _)
            | (_, Some("BUSY" | "MISCONF" | "NOREPLICAS")) => Kind::Unavailable,
            (ErrorKind::Server(ServerErrorKind::NoPerm) | ErrorKind::AuthenticationFailed, _)
            | (_, Some("NOAUTH" | "WRONGPASS")) => Kind::Denied,
            (ErrorKind::InvalidClientConfig | ErrorKind::EmptySentinelList, _) => Kind::Url,
            // Its own clock has no say, but the kernel's may.
            (ErrorKind::Io, _) if error.is_timeout() => Kind::Timeout,
            (ErrorKind::Io, _) => Kind::Disconnected,
            (ErrorKind::Parse | ErrorKind::UnexpectedReturnType, _) => Kind::Reply("it is not of the protocol"),
            (_, Some("ERR")) => Kind::of_script(error.detail().unwrap_or_default()),
            _ => Kind::Server,
        };
        Self {
            kind,
            source: Some(Arc::new(error)),
        }
    }

    /// Whether it is the address that is wrong, and so nothing that time will mend.
    #[must_use]
    pub fn is_config(&self) -> bool {
        matches!(self.kind, Kind::Url | Kind::Cluster)
    }

    /// Whether the deadline passed.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.kind == Kind::Timeout
    }

    /// Whether there was no connection, or it broke.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        matches!(self.kind, Kind::Disconnected | Kind::Down)
    }

    /// Whether the server denied access: by its password, or its access control list.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.kind == Kind::Denied
    }

    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the connection is of no more use.
    pub(super) fn breaks_connection(&self) -> bool {
        let is_unrecoverable = self.source.as_ref().is_some_and(|error| error.is_unrecoverable_error());
        self.kind == Kind::Disconnected || is_unrecoverable
    }

    /// Whether every other call would fail likewise.
    pub(super) const fn concerns_all(&self) -> bool {
        matches!(self.kind, Kind::Unavailable | Kind::Denied | Kind::Cluster)
    }
}

impl fmt::Display for RedisStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Url => {
                "the address is not one of a Redis; write redis://host:6379, or rediss:// with the feature redis-tls"
            }
            Kind::Cluster => "this is a Redis Cluster, which is not supported yet; use a standalone server or Sentinel",
            Kind::Timeout => "Redis did not answer in time",
            Kind::Down => "Redis is known to be down",
            Kind::Overload => "too many calls wait for Redis",
            Kind::Disconnected => "the connection to Redis failed",
            Kind::NoScript => "Redis lost the script again and again",
            Kind::Unavailable => "Redis serves nobody at the moment",
            Kind::Denied => "Redis denies access; give the user the rights that the README lists",
            Kind::Server => "Redis answered with an error",
            Kind::Reply(what) => return write!(f, "Redis answered what the script never does: {what}"),
            Kind::NoRuntime => "there is no Tokio runtime to wait for Redis in",
        })
    }
}

impl std::error::Error for RedisStoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|error| error as _)
    }
}
