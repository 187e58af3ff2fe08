//! How commands go on after they were accepted, and features that differ by tenant.

use jiff::Timestamp;
use onceward::{DbError, Row, Tx};
use uuid::Uuid;

// Two requests with the same key take turns, so the second finds what the first did.
const LOCK_KEY: &str = "SELECT pg_advisory_xact_lock(hashtext('lending.command_status'), hashtext($1 || '/' || $2))";
const KNOWN: &str = "SELECT correlation_id, kind, subject_id, state, detail, updated_at FROM lending.command_status \
     WHERE kind = $1 AND request_key = $2 AND state <> 'refused'";
const REFUSED: &str = "SELECT count(*) FROM lending.command_status WHERE kind = $1 AND request_key = $2";
const BEGIN: &str = "INSERT INTO lending.command_status (tenant_id, correlation_id, kind, subject_id, state, request_key) \
     VALUES ($1, $2, $3, $4, 'processing', $5) ON CONFLICT (correlation_id, tenant_id, kind, subject_id) DO UPDATE \
     SET state = 'processing', detail = NULL, request_key = excluded.request_key, created_at = clock_timestamp(), updated_at = clock_timestamp()";
const SETTLE: &str = "INSERT INTO lending.command_status (tenant_id, correlation_id, kind, subject_id, state, detail) \
     VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (correlation_id, tenant_id, kind, subject_id) DO UPDATE \
     SET state = excluded.state, detail = excluded.detail, updated_at = clock_timestamp()";
const LATEST: &str = "SELECT correlation_id, kind, subject_id, state, detail, updated_at FROM lending.command_status \
     WHERE subject_id = $1 AND kind = ANY ($2) ORDER BY created_at DESC, updated_at DESC LIMIT 1";
const FEATURE: &str = "SELECT enabled FROM lending.tenant_feature WHERE feature = $1";

/// How far a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Processing,
    Done,
    Refused,
}

impl State {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Processing => "processing",
            Self::Done => "done",
            Self::Refused => "refused",
        }
    }
}

/// A command that was accepted.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub correlation_id: String,
    pub kind: String,
    pub subject_id: Uuid,
    pub state: State,
    /// Why it was refused.
    pub detail: Option<String>,
    pub updated_at: Timestamp,
}

/// Whether a command is new.
pub(crate) enum Claim {
    /// It is, after so many that were refused.
    New { refused_before: i64 },
    /// It was given before and is under way or done.
    Known(Progress),
}

/// Looks whether a command with this key was accepted before. Until the transaction ends nobody else can ask.
pub(crate) async fn claim(tx: &Tx, kind: &str, request_key: &str) -> Result<Claim, DbError> {
    tx.execute(LOCK_KEY, &[&tx.tenant()?.as_str(), &request_key]).await?;
    if let Some(row) = tx.query_opt(KNOWN, &[&kind, &request_key]).await? {
        return Ok(Claim::Known(read(&row)));
    }
    Ok(Claim::New { refused_before: tx.query_one(REFUSED, &[&kind, &request_key]).await?.get(0) })
}

/// Notes that a command of this request is under way.
pub(crate) async fn begin(tx: &Tx, kind: &str, subject_id: Uuid, request_key: Option<&str>) -> Result<(), DbError> {
    let correlation_id = tx.scope().correlation_id.as_str();
    tx.execute(BEGIN, &[&tx.tenant()?.as_str(), &correlation_id, &kind, &subject_id, &request_key]).await.map(drop)
}

/// Notes how a command of this request ended.
pub(crate) async fn settle(
    tx: &Tx,
    kind: &str,
    subject_id: Uuid,
    state: State,
    detail: Option<&str>,
) -> Result<(), DbError> {
    let correlation_id = tx.scope().correlation_id.as_str();
    let tenant = tx.tenant()?.as_str();
    tx.execute(SETTLE, &[&tenant, &correlation_id, &kind, &subject_id, &state.as_str(), &detail]).await.map(drop)
}

/// The last command about something.
pub(crate) async fn latest(tx: &Tx, subject_id: Uuid, kinds: &[&str]) -> Result<Option<Progress>, DbError> {
    Ok(tx.query_opt(LATEST, &[&subject_id, &kinds]).await?.as_ref().map(read))
}

/// What the tenant chose for a feature, if it did.
pub(crate) async fn feature(tx: &Tx, name: &str) -> Result<Option<bool>, DbError> {
    Ok(tx.query_opt(FEATURE, &[&name]).await?.map(|row| row.get(0)))
}

fn read(row: &Row) -> Progress {
    let state = match row.get(3) {
        "done" => State::Done,
        "refused" => State::Refused,
        _ => State::Processing,
    };
    Progress {
        correlation_id: row.get(0),
        kind: row.get(1),
        subject_id: row.get(2),
        state,
        detail: row.get(4),
        updated_at: row.get(5),
    }
}
