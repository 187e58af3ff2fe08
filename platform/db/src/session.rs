//! Checks that a connection has a server session of its own.
//!
//! A pooler in transaction or statement mode assigns each transaction of a client to any free server session. Session
//! settings then apply to other clients and not to us: the role, and with it the isolation of tenants, the limits, and
//! the prepared statements.

use crate::{APP_ROLE, Client, Db, DbError, SimpleQueryMessage, migrate};
use std::time::Duration;

const SESSION_IDENTITY: &str = "SELECT pg_backend_pid(), current_user, current_setting('onceward.tenant_id', true)";
/// The time limit of the whole check. It takes about thirty round trips.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How many times two connections are compared before their sessions count as their own.
const ROUNDS: usize = 6;
/// How many times one connection must be answered, each after this pause, before another that gets no answer counts as
/// not served.
const ANSWERS_REQUIRED: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);
/// How to fix the connection to a pooler.
pub const ADVICE: &str =
    "connect to PostgreSQL itself, or through a pooler in session mode (PgBouncer: pool_mode = session)";

/// The result of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionMode {
    /// Each connection has a server session of its own.
    Own,
    /// A connection's server session changes between two transactions.
    Shared,
}

/// The server session that ran a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SessionIdentity {
    pid: String,
    role: String,
    tenant: String,
}

/// Checks two connections with the pool's settings, one of which holds a transaction open, and one connection of the
/// pool itself. Fails only if the database cannot be queried.
pub async fn check(db: &Db) -> Result<SessionMode, DbError> {
    let query = async {
        if two_connections(db).await? == SessionMode::Shared {
            return Ok(SessionMode::Shared);
        }
        let pooled = db.connection().await?;
        let identity = session_identity(pooled.client()).await?;
        Ok(if identity.role == APP_ROLE && identity.tenant.is_empty() { SessionMode::Own } else { SessionMode::Shared })
    };
    let timed_out =
        || Err(DbError::Unavailable(format!("two connections were not served within {} s", TIMEOUT.as_secs())));
    tokio::time::timeout(TIMEOUT, query).await.unwrap_or_else(|_| timed_out())
}

/// Fails with advice if [`check`] finds shared sessions.
pub async fn require_own(db: &Db) -> Result<(), DbError> {
    match check(db).await? {
        SessionMode::Own => Ok(()),
        SessionMode::Shared => Err(DbError::Config(format!(
            "a pooler between this process and PostgreSQL changes the session from one transaction to the next, so that \
             neither the role nor the tenant of a transaction is certain; {ADVICE}"
        ))),
    }
}

/// Compares the server sessions of two connections in several rounds: a pooler in transaction mode that serves other
/// clients at the same time can assign the same server session to one connection by chance, but not every time.
///
/// The first connection is queried while the second holds a transaction and just after it. A pooler that reuses the
/// most recently released session then assigns the second connection's session to it; one that reuses the oldest does
/// so one query later. Querying only during the transaction is not enough, because two sessions that a third client has
/// once separated stay separate.
///
/// The connections are opened here and set no role: behind a pooler the role would persist on a session that others
/// use.
async fn two_connections(db: &Db) -> Result<SessionMode, DbError> {
    let (one, two) = tokio::try_join!(migrate::owner(db.config()), migrate::owner(db.config()))?;
    let first = session_identity(&one).await?;
    for _ in 0..ROUNDS {
        if compare(&one, &two, &first).await? == SessionMode::Shared {
            return Ok(SessionMode::Shared);
        }
    }
    Ok(if session_identity(&one).await? == first { SessionMode::Own } else { SessionMode::Shared })
}

/// Runs one round, in four round trips.
async fn compare(one: &Client, two: &Client, first: &SessionIdentity) -> Result<SessionMode, DbError> {
    let other = parse_identity(&two.simple_query(&format!("BEGIN; {SESSION_IDENTITY}")).await?);
    let during = if other.pid == first.pid { None } else { identity_during(one, two).await? };
    two.batch_execute("ROLLBACK").await?;
    // No result: it was not queried, or it is served only now that the session is free again.
    if during.is_none_or(|during| during != *first) {
        return Ok(SessionMode::Shared);
    }
    Ok(if session_identity(one).await? == *first { SessionMode::Own } else { SessionMode::Shared })
}

/// Returns the session that serves `one` while `two` holds a transaction. Returns `None` if none does although the
/// server keeps answering `two`, which means that the pooler has no session left for `one`.
async fn identity_during(one: &Client, two: &Client) -> Result<Option<SessionIdentity>, DbError> {
    let other_is_served = async {
        for _ in 0..ANSWERS_REQUIRED {
            tokio::time::sleep(PAUSE).await;
            session_identity(two).await?;
        }
        Ok(None)
    };
    tokio::select! {
        biased;
        identity = session_identity(one) => identity.map(Some),
        not_served = other_is_served => not_served,
    }
}

/// Queries the current session in the simple protocol, which works through every pooler.
async fn session_identity(client: &Client) -> Result<SessionIdentity, DbError> {
    Ok(parse_identity(&client.simple_query(SESSION_IDENTITY).await?))
}

fn parse_identity(messages: &[SimpleQueryMessage]) -> SessionIdentity {
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let column = |number: usize| row.and_then(|row| row.get(number)).unwrap_or_default().to_owned();
    SessionIdentity { pid: column(0), role: column(1), tenant: column(2) }
}
