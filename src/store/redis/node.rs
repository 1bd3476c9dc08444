//! Where Redis is, and how to get a connection to it.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::sentinel::{SentinelClient, SentinelServerType};
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo};
use tokio::sync::Mutex;
use tokio::time;

use super::error::{Kind, RedisStoreError};

/// Beyond this, calls wait before they are queued.
const LONGEST_QUEUE: usize = 65_536;

/// Sentinels that may be asked in vain before one answers.
const SENTINELS: u32 = 8;
/// What the client gives each of them.
const SENTINEL: Duration = Duration::from_millis(1_500);

/// A server, or sentinels that know one.
#[derive(Clone)]
pub(super) enum Node {
    Server(Box<Client>),
    /// Asked anew for every connection: that is how a failover is followed.
    Sentinels(Arc<Mutex<SentinelClient>>),
}

impl Node {
    pub(super) fn at(url: &str) -> Result<Self, RedisStoreError> {
        Client::open(address(url)?)
            .map(Self::of_client)
            .map_err(RedisStoreError::of)
    }

    pub(super) fn by_sentinels<U: AsRef<str>>(
        urls: impl IntoIterator<Item = U>,
        master: &str,
    ) -> Result<Self, RedisStoreError> {
        let addresses = urls.into_iter().map(|url| address(url.as_ref()));
        let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
        // Without TLS it wants a `String`, with TLS anything that is one.
        let master: String = master.into();
        let client = SentinelClient::build(addresses, master, None, SentinelServerType::Master);
        Ok(Self::of_sentinels(client.map_err(RedisStoreError::of)?))
    }

    pub(super) fn of_client(client: Client) -> Self {
        Self::Server(Box::new(client))
    }

    pub(super) fn of_sentinels(client: SentinelClient) -> Self {
        Self::Sentinels(Arc::new(Mutex::new(client)))
    }

    /// A new connection, to whoever is the master now, each step of it in `timeout`.
    pub(super) async fn connect(
        &self,
        timeout: Duration,
        buffer: usize,
    ) -> Result<MultiplexedConnection, RedisStoreError> {
        super::tls::prepare();
        let client = match self {
            Self::Server(client) => Client::clone(client),
            Self::Sentinels(sentinels) => {
                let mut sentinels = sentinels.lock().await;
                // Some of them may be out of reach, and each takes its time.
                let patience = timeout.max(SENTINEL).saturating_mul(SENTINELS);
                let asked = time::timeout(patience, sentinels.async_get_client()).await;
                asked
                    .map_err(|_| RedisStoreError::new(Kind::Timeout))?
                    .map_err(RedisStoreError::of)?
            }
        };
        let info = client.get_connection_info().clone();
        // A small command must not wait for more to send.
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        let client = Client::open(info.set_tcp_settings(tcp)).map_err(RedisStoreError::of)?;
        // A response has our own deadline, outside.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(buffer.min(LONGEST_QUEUE));
        let connected = time::timeout(timeout, client.get_multiplexed_async_connection_with_config(&config)).await;
        connected
            .map_err(|_| RedisStoreError::new(Kind::Timeout))?
            .map_err(RedisStoreError::of)
    }
}

/// Checked here, so that a wrong address fails where it is given.
fn address(url: &str) -> Result<redis::ConnectionInfo, RedisStoreError> {
    let scheme = url
        .split_once("://")
        .map_or("", |(scheme, _)| scheme)
        .to_ascii_lowercase();
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
    if scheme.contains("cluster") || hosts.contains(',') {
        return Err(RedisStoreError::new(Kind::Cluster));
    }
    let info = url.into_connection_info().map_err(RedisStoreError::of)?;
    if !info.addr().is_supported() {
        return Err(RedisStoreError::new(Kind::Url));
    }
    Ok(info)
}
