//! Background tasks of a link: the keeper, which gets a connection into service, and then its watch.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;
use tokio::time;

use crate::random;

use super::error::RedisStoreError;
use super::link::{Link, in_time};
use super::reply::Reply;
use super::stats::one_more;

/// Of connections that do not last, the first few are replaced at once …
const AT_ONCE: u32 = 3;
/// … but for a random part of this: a fleet may have lost its connections all together.
const SPREAD: Duration = Duration::from_millis(10);
/// After that, or if nobody is there to connect to, there is a pause, which doubles with each attempt …
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// … up to this. The second half of each pause is random.
const LONGEST_PAUSE: Duration = Duration::from_millis(600);

/// A connection that was not used for so long is asked whether it is still there: servers, balancers and firewalls drop what is
/// idle, and a request should not be the one to find out.
const IDLE: Duration = Duration::from_secs(5);

/// However many give up waiting, a connection is probed no oftener than this.
const BREATH: Duration = Duration::from_millis(20);

/// Starts a keeper, which first tries what connection there is.
///
/// Never with the link's state in hand: a runtime that ends drops the keeper at once, which takes it.
pub(super) fn spawn(link: &Arc<Link>, late: Option<MultiplexedConnection>) {
    tokio::spawn(keep(
        Keeper {
            link: Arc::downgrade(link),
            is_done: false,
        },
        late,
    ));
}

/// Whoever is connecting. If its runtime ends before it is done, somebody else must go on.
struct Keeper {
    link: Weak<Link>,
    is_done: bool,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !self.is_done
            && let Some(link) = self.link.upgrade()
        {
            link.enter_idleness();
        }
    }
}

/// Gets a connection into service, however long it takes, and watches it.
async fn keep(mut keeper: Keeper, mut late: Option<MultiplexedConnection>) {
    let mut has_failed = false;
    // Once nobody has the store any more, there is nothing to connect.
    while let Some(link) = keeper.link.upgrade() {
        let attempt = link.attempts.fetch_add(1, Ordering::Relaxed);
        let is_at_once = !has_failed && attempt < AT_ONCE;
        if !is_at_once {
            // Nobody waits for that.
            link.enter_outage();
        }
        drop(link);
        time::sleep(if is_at_once { at_random(SPREAD) } else { pause(attempt) }).await;
        let Some(link) = keeper.link.upgrade() else {
            return;
        };
        let connection = match late.take() {
            Some(connection) => try_again(&link, connection).await,
            None => connect(&link).await,
        };
        match connection {
            Ok(connection) => {
                keeper.is_done = true;
                let (generation, signal) = link.enter_service(connection);
                drop(link);
                return watch(&keeper.link, generation, &signal).await;
            }
            Err(error) => {
                link.note(&error);
                link.enter_outage();
                has_failed = true;
            }
        }
    }
}

fn pause(attempt: u32) -> Duration {
    let half = (FIRST_PAUSE * 2_u32.pow(attempt.saturating_sub(1).min(16))).min(LONGEST_PAUSE) / 2;
    half + at_random(half)
}

fn at_random(range: Duration) -> Duration {
    Duration::from_micros(random::below(range.as_micros() as u64 + 1, random::seed()))
}

/// A connection over which the script has answered, in time.
async fn connect(link: &Link) -> Result<MultiplexedConnection, RedisStoreError> {
    let mut connection = link.node.connect(link.limits.connect, link.limits.in_flight).await?;
    // Once for the script to be there, and once for the time it takes.
    in_time(link.limits.connect, link.evaluate(&mut connection, &link.probe)).await?;
    probe(link, &mut connection).await?;
    one_more(&link.counters.connects);
    Ok(connection)
}

/// The connection that was late: after a stall all of a fleet would otherwise connect anew.
async fn try_again(
    link: &Link,
    mut connection: MultiplexedConnection,
) -> Result<MultiplexedConnection, RedisStoreError> {
    let patience = link.limits.deadline.saturating_mul(4).min(link.limits.connect);
    in_time(patience, link.evaluate(&mut connection, &link.probe)).await?;
    probe(link, &mut connection).await?;
    Ok(connection)
}

async fn probe(link: &Link, connection: &mut MultiplexedConnection) -> Result<(), RedisStoreError> {
    let asked = async {
        let value: Value = link.probe.query_async(connection).await.map_err(RedisStoreError::of)?;
        Reply::parse(&value, 0)
    };
    in_time(link.limits.deadline, asked).await.map(|_| ())
}

/// Probes a connection that nobody uses, or that somebody gave up waiting for, as long as it is in service.
async fn watch(link: &Weak<Link>, generation: u64, signal: &Notify) {
    let mut answered_before = 0;
    loop {
        let is_idle = time::timeout(IDLE, signal.notified()).await.is_err();
        let Some(link) = link.upgrade() else {
            return;
        };
        let Some(mut connection) = link.used(generation) else {
            return;
        };
        let answered = link.counters.answered.load(Ordering::Relaxed);
        if is_idle && answered != answered_before {
            answered_before = answered;
            continue;
        }
        match probe(&link, &mut connection).await {
            Ok(()) => link.answered(Some(generation)),
            Err(error) => {
                link.fail(&error, Some(generation));
                // At once again, until there is an answer or it is an outage.
                signal.notify_one();
            }
        }
        drop((link, connection));
        time::sleep(BREATH).await;
    }
}
