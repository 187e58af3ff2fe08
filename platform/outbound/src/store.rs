//! The statements of this crate. A breaker's row is changed by the rule of [`SharedBreaker`], under the row's lock.

use onceward_db::{Db, DbError, Row, Scope, Tx};
use onceward_resilience::SharedBreaker;
use serde_json::{Value, json};
use std::time::Duration;

/// The channel on which changes are announced.
pub(crate) const CHANNEL: &str = "onceward_breaker";
/// A process that was not seen for this long is no longer counted.
const LIVE_SECONDS: f64 = 30.0;
/// How often the row of a breaker is created before giving up.
const LOCK_ATTEMPTS: usize = 5;

const NOW: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
const CREATE: &str = "
    INSERT INTO outbound.breaker (destination, credential, state)
    VALUES ($1, $2, $3)
    ON CONFLICT DO NOTHING";
const LOCK: &str = "
    SELECT b.state,
        (SELECT count(*)
         FROM outbound.process p
         WHERE p.destination = $1
           AND p.seen_at > clock_timestamp() - make_interval(secs => $3))
    FROM outbound.breaker b
    WHERE b.destination = $1
      AND b.credential = $2
    FOR UPDATE OF b";
const UPDATE: &str = "
    UPDATE outbound.breaker
    SET state = $3,
        changed_at = clock_timestamp()
    WHERE destination = $1
      AND credential = $2";
const DELETE: &str = "DELETE FROM outbound.breaker WHERE destination = $1 AND credential = $2";
const ANNOUNCE: &str = "SELECT pg_notify('onceward_breaker', $1)";
const FIND: &str = "
    SELECT destination,
        credential,
        state,
        (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM outbound.breaker
    WHERE destination = $1
      AND credential = $2";
const LIST: &str = "
    SELECT destination,
        credential,
        state,
        (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM outbound.breaker
    ORDER BY destination, credential";
const HEARTBEAT: &str = "
    INSERT INTO outbound.process (destination, process)
    SELECT unnest($1::text[]), $2
    ON CONFLICT (destination, process) DO UPDATE SET seen_at = clock_timestamp()";
const FORGET_DEAD: &str = "
    DELETE FROM outbound.process
    WHERE seen_at < clock_timestamp() - make_interval(secs => $1)";

const LIVE: &str = "
    SELECT p.destination,
        count(*)
    FROM outbound.process p
    WHERE p.destination = ANY ($1)
      AND p.seen_at > clock_timestamp() - make_interval(secs => $2)
    GROUP BY p.destination";

/// A breaker about which something is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerRow {
    /// The destination.
    pub destination: String,
    /// The digest of the credential; empty if calls have none.
    pub credential: String,
    /// The state.
    pub breaker: SharedBreaker,
    /// The database's time when it was read.
    pub now_ms: u64,
}

/// Returns every breaker that is not simply closed.
pub async fn list(db: &Db) -> Result<Vec<BreakerRow>, DbError> {
    let rows = db.connection().await?.query(LIST, &[]).await?;
    rows.iter().map(row).collect()
}

/// Returns the breaker that a notification is about; `None` if the notification says nothing.
pub(crate) async fn find_announced(db: &Db, payload: &str) -> Result<Option<BreakerRow>, DbError> {
    let Ok((destination, credential)) = serde_json::from_str::<(String, String)>(payload) else {
        return Ok(None);
    };
    let connection = db.connection().await?;
    match connection.query(FIND, &[&destination, &credential]).await?.first() {
        Some(found) => row(found).map(Some),
        // A breaker without a row is closed.
        None => Ok(Some(BreakerRow { destination, credential, breaker: SharedBreaker::new(0), now_ms: 0 })),
    }
}

/// Rejects all calls to a destination by order of an operator, for a time or until [`close`].
pub async fn isolate(
    tx: &Tx,
    destination: &str,
    credential: &str,
    (by, why): (&str, &str),
    time: Option<Duration>,
) -> Result<(), DbError> {
    change(tx, destination, credential, |breaker, _, now_ms| {
        let until_ms = time.map(|time| now_ms.saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)));
        breaker.isolate(by, why, until_ms);
    })
    .await
    .map(drop)
}

/// Closes a breaker for all processes, by order of an operator.
pub async fn close(tx: &Tx, destination: &str, credential: &str) -> Result<(), DbError> {
    change(tx, destination, credential, |breaker, _, _| breaker.close()).await.map(drop)
}

/// Applies a rule to a breaker in a transaction of its own. The rule receives the number of live processes and the time.
/// Returns its result and the breaker after it.
pub(crate) async fn apply<T>(
    db: &Db,
    destination: &str,
    credential: &str,
    rule: impl FnOnce(&mut SharedBreaker, usize, u64) -> T,
) -> Result<(T, BreakerRow), DbError> {
    let tx = db.begin(Scope::platform("outbound")).await?;
    let result = change(&tx, destination, credential, rule).await?;
    tx.commit().await?;
    Ok(result)
}

async fn change<T>(
    tx: &Tx,
    destination: &str,
    credential: &str,
    rule: impl FnOnce(&mut SharedBreaker, usize, u64) -> T,
) -> Result<(T, BreakerRow), DbError> {
    let locked = lock(tx, destination, credential).await?;
    let live = usize::try_from(locked.get::<_, i64>(1)).unwrap_or(0);
    let mut breaker = parse(locked.get(0))?;
    let before = breaker.clone();
    // The time is read again: it may have taken a while to get the lock.
    let now_ms = now_ms(tx).await?;
    let result = rule(&mut breaker, live, now_ms);
    if breaker.is_idle() {
        tx.execute(DELETE, &[&destination, &credential]).await?;
    } else if breaker != before {
        tx.execute(UPDATE, &[&destination, &credential, &document(&breaker)]).await?;
    }
    if breaker.phase != before.phase {
        tx.query(ANNOUNCE, &[&json!([destination, credential]).to_string()]).await?;
    }
    let (destination, credential) = (destination.to_owned(), credential.to_owned());
    Ok((result, BreakerRow { destination, credential, breaker, now_ms }))
}

/// Locks the row of a breaker, and creates it if there is none.
async fn lock(tx: &Tx, destination: &str, credential: &str) -> Result<Row, DbError> {
    for _ in 0..LOCK_ATTEMPTS {
        let fresh = document(&SharedBreaker::new(now_ms(tx).await?));
        tx.execute(CREATE, &[&destination, &credential, &fresh]).await?;
        // Another process may have deleted the row in between.
        if let Some(locked) = tx.query_opt(LOCK, &[&destination, &credential, &LIVE_SECONDS]).await? {
            return Ok(locked);
        }
    }
    Err(DbError::Stale(format!("the breaker of {destination:?} was deleted again and again; try once more")))
}

/// Records that this process uses these destinations, and forgets processes that are long gone. Returns how many processes
/// use each of them.
pub(crate) async fn heartbeat(
    db: &Db,
    process: &str,
    destinations: &[String],
) -> Result<Vec<(String, usize)>, DbError> {
    let connection = db.connection().await?;
    connection.query(HEARTBEAT, &[&destinations, &process]).await?;
    connection.query(FORGET_DEAD, &[&(LIVE_SECONDS * 10.0)]).await?;
    let rows = connection.query(LIVE, &[&destinations, &LIVE_SECONDS]).await?;
    Ok(rows.iter().map(|row| (row.get(0), usize::try_from(row.get::<_, i64>(1)).unwrap_or(0))).collect())
}

async fn now_ms(tx: &Tx) -> Result<u64, DbError> {
    Ok(u64::try_from(tx.query_one(NOW, &[]).await?.get::<_, i64>(0)).unwrap_or(0))
}

fn row(row: &Row) -> Result<BreakerRow, DbError> {
    let now_ms = u64::try_from(row.get::<_, i64>(3)).unwrap_or(0);
    Ok(BreakerRow { destination: row.get(0), credential: row.get(1), breaker: parse(row.get(2))?, now_ms })
}

fn parse(state: Value) -> Result<SharedBreaker, DbError> {
    serde_json::from_value(state)
        .map_err(|error| DbError::Config(format!("outbound.breaker has an unknown state: {error}")))
}

fn document(breaker: &SharedBreaker) -> Value {
    serde_json::to_value(breaker).expect("a breaker has only strings as keys")
}
