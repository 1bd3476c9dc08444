//! How a client stands, in headers.

use std::fmt::Write as _;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::policy::{Limit, Policy, Standing, Verdict};
use crate::quota::{Algorithm, Quota};
use crate::store::Answer;

/// Which headers tell clients how they stand. `Retry-After` is not among them: every refusal that can be waited out
/// has it.
///
/// # Defaults
///
/// `RateLimit` and `RateLimit-Policy`, as in draft 11 of the IETF's rate-limit headers: a field for how the client
/// stands with each policy, and one for what the policies are.
///
/// ```text
/// RateLimit-Policy: "user";q=5;w=10, "endpoint";q=20;w=10, "global";q=40;w=10
/// RateLimit: "user";r=4;t=10, "endpoint";r=19;t=10, "global";r=39;t=10
/// ```
///
/// - `q` is the quota for a window of `w` seconds; `w` is left out if it is not whole. A burst other than the quota
///   is told as `throttle-burst`.
/// - `r` is what remains, for the next `t` seconds: until the window ends, for windows that do; the whole window for
///   those that slide or refill; until the same request would pass again, if nothing remains. It is left out for
///   windows of less than a second.
/// - A refusal lists only the policies that refused, with `t` until they would not: so `Retry-After`, which adds
///   jitter, is never earlier than `t`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers {
    draft: Option<Draft>,
    x_rate_limit: Option<Reset>,
    wait_millis: Option<HeaderName>,
}

/// Which draft of the IETF's rate-limit headers `RateLimit` and `RateLimit-Policy` are written by; they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Draft {
    /// `draft-ietf-httpapi-ratelimit-headers-11`; 08 to 10 are written alike.
    V11,
}

/// How `X-RateLimit-Reset` is written; nobody agrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reset {
    /// As seconds since the Unix epoch, like GitHub.
    Epoch,
    /// As seconds from now.
    Delta,
}

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The largest integer of a structured field.
const MOST: u64 = 999_999_999_999_999;

impl Headers {
    /// None at all.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            draft: None,
            x_rate_limit: None,
            wait_millis: None,
        }
    }

    /// Sends `RateLimit` and `RateLimit-Policy`.
    #[must_use]
    pub fn draft(mut self, draft: Draft) -> Self {
        self.draft = Some(draft);
        self
    }

    /// Also sends `X-RateLimit-Limit`, `-Remaining` and `-Reset`, which can speak of one limit only: of the one with
    /// the smallest share remaining, or the first that refused.
    #[must_use]
    pub fn x_rate_limit(mut self, reset: Reset) -> Self {
        self.x_rate_limit = Some(reset);
        self
    }

    /// Also sends the wait in milliseconds with refusals, under a name of your choice.
    ///
    /// # Panics
    ///
    /// If the name is `retry-after`, which counts seconds.
    #[must_use]
    pub fn wait_millis(mut self, name: HeaderName) -> Self {
        assert!(
            name != RETRY_AFTER,
            "retry-after counts seconds; write another name for milliseconds, such as x-retry-after-ms"
        );
        self.wait_millis = Some(name);
        self
    }

    pub(super) const fn tell_anything(&self) -> bool {
        self.draft.is_some() || self.x_rate_limit.is_some()
    }

    pub(super) fn tell_wait(&self, wait: Duration, headers: &mut HeaderMap) {
        if let Some(name) = &self.wait_millis {
            headers.insert(name, HeaderValue::from(wait.as_millis() as u64));
        }
    }

    /// For an admitted request.
    pub(super) fn tell_standings(&self, verdict: &Verdict, labels: &Labels, headers: &mut HeaderMap) {
        if self.draft.is_some() {
            let policies = labels.policies(verdict);
            let standings = labels.list(shown(verdict), window);
            append(headers, RATE_LIMIT_POLICY, policies);
            append(headers, RATE_LIMIT, standings);
        }
        if let Some(reset) = self.x_rate_limit
            && let Some(tightest) = shown(verdict).reduce(tighter)
            && !is_tighter_already(headers, &tightest)
        {
            insert_x_rate_limit(headers, verdict, &tightest, reset);
        }
    }

    /// For a refused one.
    pub(super) fn tell_refusal(&self, verdict: &Verdict, labels: &Labels, headers: &mut HeaderMap) {
        let violated = || {
            let refuses = |standing: &Standing<'_>| standing.answer() != Answer::Admits;
            shown(verdict).filter(refuses)
        };
        if self.draft.is_some() {
            let standings = labels.list(violated(), |standing| {
                standing.retry_after().map(|wait| ceil_seconds(wait).max(1))
            });
            append(headers, RATE_LIMIT_POLICY, labels.policies(verdict));
            append(headers, RATE_LIMIT, standings);
        }
        if let Some(reset) = self.x_rate_limit
            && let Some(first) = violated().next()
        {
            insert_x_rate_limit(headers, verdict, &first, reset);
        }
    }
}

impl Default for Headers {
    fn default() -> Self {
        Self::none().draft(Draft::V11)
    }
}

/// What is the same for every request: the limits as structured-field items.
#[derive(Debug)]
pub(super) struct Labels {
    /// By the limits' index.
    items: Vec<Item>,
    /// The policy field of a request that concerns all tiers with their first plans.
    usual: Option<Usual>,
}

#[derive(Debug)]
struct Item {
    /// The name, quoted.
    name: String,
    /// The whole item of `RateLimit-Policy`.
    policy: String,
}

#[derive(Debug)]
struct Usual {
    limits: Vec<usize>,
    field: HeaderValue,
}

impl Labels {
    pub(super) fn new(policy: &Policy) -> Self {
        let mut labels = Self {
            items: policy.limits().map(Item::new).collect(),
            usual: None,
        };
        let shown = policy.tiers().iter().filter(|checked| checked.tier.in_headers);
        let limits: Vec<_> = shown
            .flat_map(|checked| checked.plans[0].iter().map(|limit| limit.index))
            .collect();
        labels.usual = labels.join(limits.iter().copied()).map(|field| Usual { limits, field });
        labels
    }

    /// The policies that the request was under; nothing if none is shown.
    fn policies(&self, verdict: &Verdict) -> Option<HeaderValue> {
        let named = || verdict.own_standings().filter(Standing::is_named);
        let limits = || named().map(|standing| standing.limit().index);
        match &self.usual {
            Some(usual) if limits().eq(usual.limits.iter().copied()) => Some(usual.field.clone()),
            _ => self.join(limits()),
        }
    }

    fn join(&self, limits: impl Iterator<Item = usize>) -> Option<HeaderValue> {
        let mut field = String::new();
        for limit in limits {
            field.push_str(if field.is_empty() { "" } else { ", " });
            field.push_str(&self.items[limit].policy);
        }
        value(field)
    }

    /// `RateLimit` for some limits; nothing if there are none.
    fn list<'a>(
        &self,
        standings: impl Iterator<Item = Standing<'a>>,
        seconds: impl Fn(&Standing<'a>) -> Option<u64>,
    ) -> Option<HeaderValue> {
        let mut field = String::with_capacity(128);
        for standing in standings {
            let separator = if field.is_empty() { "" } else { ", " };
            let name = &self.items[standing.limit().index].name;
            let remaining = standing.remaining().min(MOST);
            let _ = write!(field, "{separator}{name};r={remaining}");
            if let Some(seconds) = seconds(&standing) {
                let _ = write!(field, ";t={seconds}");
            }
        }
        value(field)
    }
}

impl Item {
    fn new(limit: &Limit) -> Self {
        let mut name = String::from('"');
        for letter in limit.label.chars() {
            if matches!(letter, '"' | '\\') {
                name.push('\\');
            }
            name.push(letter);
        }
        name.push('"');

        let quota = &limit.quota;
        let (q, w) = quota_per_seconds(quota);
        let mut policy = format!("{name};q={q}");
        if let Some(w) = w {
            let _ = write!(policy, ";w={w}");
        }
        if quota.burst_size() != quota.limit() {
            let _ = write!(policy, ";throttle-burst={}", quota.burst_size().min(MOST));
        }
        Self { name, policy }
    }
}

/// `q`, and `w` if the quota can be told in whole seconds; several windows that make up one second are told as one.
fn quota_per_seconds(quota: &Quota) -> (u64, Option<u64>) {
    const SECOND: u64 = 1_000_000;
    let (limit, period) = (quota.limit(), quota.period_micros());
    if period.is_multiple_of(SECOND) {
        (limit.min(MOST), Some(period / SECOND))
    } else if SECOND.is_multiple_of(period) {
        (limit.saturating_mul(SECOND / period).min(MOST), Some(1))
    } else {
        (limit.min(MOST), None)
    }
}

fn shown(verdict: &Verdict) -> impl Iterator<Item = Standing<'_>> {
    verdict.own_standings().filter(Standing::is_shown)
}

/// `t` of an admitted request; nothing where whole seconds would tell a far lower rate than there is.
fn window(standing: &Standing<'_>) -> Option<u64> {
    let quota = standing.quota();
    let window = match quota.algorithm() {
        _ if standing.remaining() == 0 => standing.retry_after().unwrap_or_default(),
        _ if quota.period() < Duration::from_secs(1) => return None,
        Algorithm::FixedWindow { .. } if !standing.reset_after().is_zero() => standing.reset_after(),
        // Not the time to reset: of a bucket that is nearly full it would tell a far higher rate than there is.
        _ => quota.period(),
    };
    Some(ceil_seconds(window).clamp(1, MOST))
}

/// The one with the smaller share remaining; the first if they are alike.
fn tighter<'a>(one: Standing<'a>, other: Standing<'a>) -> Standing<'a> {
    let share = |of: &Standing<'_>, by: &Standing<'_>| u128::from(of.remaining()) * u128::from(by.quota().burst_size());
    if share(&other, &one) < share(&one, &other) {
        other
    } else {
        one
    }
}

/// Whether a layer further in has told of a limit that is tighter.
fn is_tighter_already(headers: &HeaderMap, standing: &Standing<'_>) -> bool {
    let number = |name| headers.get(name)?.to_str().ok()?.parse::<u64>().ok();
    let (Some(limit), Some(remaining)) = (number(&X_LIMIT), number(&X_REMAINING)) else {
        return false;
    };
    u128::from(remaining) * u128::from(standing.quota().limit()) <= u128::from(standing.remaining()) * u128::from(limit)
}

fn insert_x_rate_limit(headers: &mut HeaderMap, verdict: &Verdict, standing: &Standing<'_>, reset: Reset) {
    let seconds = match reset {
        Reset::Delta => ceil_seconds(standing.reset_after()),
        Reset::Epoch => {
            let now = Duration::from_micros(verdict.now().as_micros());
            ceil_seconds(now.saturating_add(standing.reset_after()))
        }
    };
    // What can remain at most, so that the two are a share.
    headers.insert(X_LIMIT, HeaderValue::from(standing.quota().burst_size()));
    headers.insert(X_REMAINING, HeaderValue::from(standing.remaining()));
    headers.insert(X_RESET, HeaderValue::from(seconds));
}

fn append(headers: &mut HeaderMap, name: HeaderName, value: Option<HeaderValue>) {
    if let Some(value) = value {
        headers.append(name, value);
    }
}

/// An empty list is not sent.
fn value(field: String) -> Option<HeaderValue> {
    if field.is_empty() {
        return None;
    }
    // Names were checked to be printable ASCII, so this cannot fail.
    HeaderValue::try_from(field).ok()
}

fn ceil_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}
