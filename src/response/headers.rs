//! How a client stands, in headers.

use std::fmt::Write as _;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue, Response};

use crate::clock::Timestamp;
use crate::policy::{Limit, Policy, Rejection, Standing, Standings};
use crate::quota::{Algorithm, Quota};
use crate::store::Answer;

use super::text::{Piece, Text, header};

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

    /// Whether there is anything to tell of an admitted request.
    const fn tell_anything(&self) -> bool {
        self.draft.is_some() || self.x_rate_limit.is_some()
    }

    pub(super) fn tell_wait(&self, wait: Duration, headers: &mut HeaderMap) {
        if let Some(name) = &self.wait_millis {
            headers.insert(name, HeaderValue::from(wait.as_millis() as u64));
        }
    }

    /// For an admitted request.
    #[inline]
    pub(super) fn tell_standings(&self, standings: Standings<'_>, labels: &Labels) -> Option<Stamp> {
        if !self.tell_anything() {
            return None;
        }
        let (policies, standings_told) = match self.draft {
            Some(Draft::V11) => labels.tell(standings),
            None => (None, None),
        };
        Some(Stamp {
            policies,
            standings: standings_told,
            tightest: self.x_rate_limit.and_then(|reset| {
                let tightest = shown(standings).reduce(tighter)?;
                Some(XRateLimit::of(&tightest, standings.now(), reset))
            }),
        })
    }

    /// For a refused one: all but `RateLimit`, which is `violations`.
    pub(super) fn tell_refusal(
        &self,
        standings: Standings<'_>,
        violations: Option<HeaderValue>,
        labels: &Labels,
        headers: &mut HeaderMap,
    ) {
        if self.draft.is_some() {
            append(headers, RATE_LIMIT_POLICY, labels.policies(standings));
            append(headers, RATE_LIMIT, violations);
        }
        if let Some(reset) = self.x_rate_limit
            && let Some(first) = violated(standings).next()
        {
            XRateLimit::of(&first, standings.now(), reset).insert(headers);
        }
    }

    /// Adds what `RateLimit` says of a refused request, each item with a comma before it; nothing if it is not sent.
    pub(super) fn push_violations<const N: usize>(
        &self,
        standings: Standings<'_>,
        labels: &Labels,
        text: &mut Text<N>,
    ) {
        if self.draft.is_some() {
            violated(standings).for_each(|standing| labels.push_violation(&standing, text));
        }
    }
}

impl Default for Headers {
    fn default() -> Self {
        Self::none().draft(Draft::V11)
    }
}

/// What the response to an admitted request will be given.
pub(crate) struct Stamp {
    policies: Option<HeaderValue>,
    standings: Option<HeaderValue>,
    tightest: Option<XRateLimit>,
}

impl Stamp {
    /// To be done once.
    pub(crate) fn put_on<B>(&mut self, response: &mut Response<B>) {
        // A layer further in has refused it, and said all there is to say.
        if response.extensions().get::<Rejection>().is_some() {
            return;
        }
        let headers = response.headers_mut();
        append(headers, RATE_LIMIT_POLICY, self.policies.take());
        append(headers, RATE_LIMIT, self.standings.take());
        if let Some(tightest) = self.tightest.take()
            && !tightest.is_looser_than_told(headers)
        {
            tightest.insert(headers);
        }
    }
}

/// A field of four limits or so; longer ones take an allocation more.
type Field = Text<256>;

/// Before every item, and taken from the first in the end.
const COMMA: &str = ", ";

/// The list without the comma before its first item; none if it has none.
pub(super) fn without_comma(items: &[u8]) -> Option<&[u8]> {
    items.get(COMMA.len()..)
}

/// What is the same for every request: the limits as structured-field items.
#[derive(Debug)]
pub(super) struct Labels {
    /// By the limits' numbers.
    items: Vec<Item>,
    /// The policy field of a request that concerns all tiers with their first plans.
    usual: Option<Usual>,
}

#[derive(Debug)]
struct Item {
    /// The whole item of `RateLimit-Policy`.
    policy: String,
    /// The item of `RateLimit` with a comma before it, up to the number that remains …
    remaining: Piece,
    /// … and after it, where the time is always the same.
    window: Window,
}

/// What `t` is while something remains.
#[derive(Clone, Debug)]
enum Window {
    /// The window slides, or the bucket refills: all of it. (Not the time to reset: of a bucket that is nearly full it
    /// would tell a far higher rate than there is.)
    Always(Piece),
    /// Until the window ends.
    ToReset,
}

#[derive(Debug)]
struct Usual {
    limits: Vec<usize>,
    field: HeaderValue,
}

impl Labels {
    pub(super) fn new(policy: &Policy) -> Self {
        let mut labels = Self {
            items: policy.limits().iter().map(|limit| Item::new(limit)).collect(),
            usual: None,
        };
        let shown = policy.tiers().iter().filter(|checked| checked.tier.in_headers);
        let limits: Vec<_> = shown.flat_map(|checked| checked.plans[0].clone()).collect();
        labels.usual = labels.join(limits.iter().copied()).map(|field| Usual { limits, field });
        labels
    }

    /// The policies that an admitted request was under, and how it stands with each; in one walk, as every request
    /// takes it.
    #[inline]
    fn tell(&self, standings: Standings<'_>) -> (Option<HeaderValue>, Option<HeaderValue>) {
        let mut field = Field::new();
        let mut usual = self.usual.as_ref().map_or(&[][..], |usual| &usual.limits).iter();
        let mut is_usual = true;
        for standing in standings.iter().filter(Standing::is_named) {
            is_usual &= usual.next() == Some(&standing.line().limit_number());
            if standing.is_shown() {
                self.push_standing(&standing, &mut field);
            }
        }
        is_usual &= usual.next().is_none();
        let policies = match &self.usual {
            Some(usual) if is_usual => Some(usual.field.clone()),
            _ => self.policies(standings),
        };
        (policies, without_comma(field.as_bytes()).and_then(header))
    }

    /// The policies that the request was under; nothing if none is shown.
    fn policies(&self, standings: Standings<'_>) -> Option<HeaderValue> {
        let named = standings.iter().filter(Standing::is_named);
        let limits = named.map(|standing| standing.line().limit_number());
        match &self.usual {
            Some(usual) if limits.clone().eq(usual.limits.iter().copied()) => Some(usual.field.clone()),
            _ => self.join(limits),
        }
    }

    fn join(&self, limits: impl Iterator<Item = usize>) -> Option<HeaderValue> {
        let mut field = Field::new();
        for limit in limits {
            field.push(COMMA);
            field.push(&self.items[limit].policy);
        }
        without_comma(field.as_bytes()).and_then(header)
    }

    /// An item of `RateLimit`, up to its time.
    #[inline(always)]
    fn push_remaining<const N: usize>(&self, standing: &Standing<'_>, text: &mut Text<N>) -> &Item {
        let item = &self.items[standing.line().limit_number()];
        text.push_piece(&item.remaining);
        text.push_number(standing.remaining().min(MOST));
        item
    }

    /// One of an admitted request.
    #[inline(always)]
    fn push_standing<const N: usize>(&self, standing: &Standing<'_>, text: &mut Text<N>) {
        let item = self.push_remaining(standing, text);
        let micros = match &item.window {
            _ if standing.remaining() == 0 => standing.decision().retry_after_micros(),
            Window::Always(window) => return text.push_piece(window),
            Window::ToReset => match standing.decision().reset_after_micros() {
                0 => standing.quota().period_micros(),
                reset_after => reset_after,
            },
        };
        push_seconds(micros, text);
    }

    /// One of a refused request.
    fn push_violation<const N: usize>(&self, standing: &Standing<'_>, text: &mut Text<N>) {
        self.push_remaining(standing, text);
        if standing.retry_after().is_some() {
            push_seconds(standing.decision().retry_after_micros(), text);
        }
    }
}

fn push_seconds<const N: usize>(micros: u64, text: &mut Text<N>) {
    text.push(";t=");
    text.push_number(ceil_seconds(micros).clamp(1, MOST));
}

impl Item {
    fn new(limit: &Limit) -> Self {
        let Limit {
            quota,
            quoted_label: name,
            ..
        } = limit;
        let (q, w) = quota_per_seconds(quota);
        let mut policy = format!("{name};q={q}");
        if let Some(w) = w {
            let _ = write!(policy, ";w={w}");
        }
        if quota.burst_size() != quota.limit() {
            let _ = write!(policy, ";throttle-burst={}", quota.burst_size().min(MOST));
        }
        Self {
            policy,
            remaining: Piece::new(&format!("{COMMA}{name};r=")),
            window: Window::of(quota),
        }
    }
}

impl Window {
    fn of(quota: &Quota) -> Self {
        match quota.algorithm() {
            // In whole seconds it would tell a far lower rate than there is.
            _ if quota.period() < Duration::from_secs(1) => Self::Always(Piece::new("")),
            Algorithm::FixedWindow { .. } => Self::ToReset,
            _ => Self::Always(Piece::new(&format!(
                ";t={}",
                ceil_seconds(quota.period_micros()).clamp(1, MOST)
            ))),
        }
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

fn violated(standings: Standings<'_>) -> impl Iterator<Item = Standing<'_>> {
    shown(standings).filter(|standing| standing.answer() != Answer::Admits)
}

fn shown(standings: Standings<'_>) -> impl Iterator<Item = Standing<'_>> + Clone {
    standings.iter().filter(Standing::is_shown)
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

/// The numbers of `X-RateLimit-*`.
struct XRateLimit {
    /// What can remain at most, so that the two are a share.
    limit: u64,
    remaining: u64,
    reset: u64,
}

impl XRateLimit {
    fn of(standing: &Standing<'_>, now: Timestamp, reset: Reset) -> Self {
        let reset_after = standing.decision().reset_after_micros();
        Self {
            limit: standing.quota().burst_size(),
            remaining: standing.remaining(),
            reset: match reset {
                Reset::Delta => ceil_seconds(reset_after),
                Reset::Epoch => ceil_seconds(now.as_micros().saturating_add(reset_after)),
            },
        }
    }

    /// Whether a layer further in has told of a limit that is tighter, or as tight.
    fn is_looser_than_told(&self, headers: &HeaderMap) -> bool {
        let number = |name| headers.get(name)?.to_str().ok()?.parse::<u64>().ok();
        let (Some(limit), Some(remaining)) = (number(&X_LIMIT), number(&X_REMAINING)) else {
            return false;
        };
        u128::from(remaining) * u128::from(self.limit) <= u128::from(self.remaining) * u128::from(limit)
    }

    fn insert(self, headers: &mut HeaderMap) {
        headers.insert(X_LIMIT, HeaderValue::from(self.limit));
        headers.insert(X_REMAINING, HeaderValue::from(self.remaining));
        headers.insert(X_RESET, HeaderValue::from(self.reset));
    }
}

fn append(headers: &mut HeaderMap, name: HeaderName, value: Option<HeaderValue>) {
    if let Some(value) = value {
        headers.append(name, value);
    }
}

const fn ceil_seconds(micros: u64) -> u64 {
    micros.div_ceil(1_000_000)
}
