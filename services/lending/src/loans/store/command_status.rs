//! The status of accepted commands, and per-tenant feature flags.

use crate::{loans::events::LoanCreate, progress::CommandState};
use jiff::Timestamp;
use onceward::{DbError, Event, Row, Tx};
use uuid::Uuid;

// Serializes requests with the same key, so the second one finds the result of the first.
const LOCK_KEY: &str = "SELECT pg_advisory_xact_lock(19021, hashtext($1 || '/' || $2))";
const ACCEPTED: &str = "SELECT correlation_id, kind, subject_id, state, detail, updated_at FROM lending.command_status \
     WHERE kind = $1 AND request_key = $2 AND state <> 'refused'";
const REFUSED: &str = "SELECT count(*) FROM lending.command_status WHERE kind = $1 AND request_key = $2";
const MARK_PROCESSING: &str = "INSERT INTO lending.command_status (tenant_id, correlation_id, kind, subject_id, state, request_key) \
     VALUES ($1, $2, $3, $4, 'processing', $5) ON CONFLICT (correlation_id, tenant_id, kind, subject_id) DO UPDATE \
     SET state = 'processing', detail = NULL, request_key = excluded.request_key, created_at = clock_timestamp(), updated_at = clock_timestamp()";
const SET_STATE: &str = "INSERT INTO lending.command_status (tenant_id, correlation_id, kind, subject_id, state, detail) \
     VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (correlation_id, tenant_id, kind, subject_id) DO UPDATE \
     SET state = excluded.state, detail = excluded.detail, updated_at = clock_timestamp()";
const LATEST: &str = "SELECT correlation_id, kind, subject_id, state, detail, updated_at FROM lending.command_status \
     WHERE subject_id = $1 AND kind = ANY ($2) ORDER BY created_at DESC, updated_at DESC LIMIT 1";
const FEATURE: &str = "SELECT enabled FROM lending.tenant_feature WHERE feature = $1";

/// An accepted command and its state.
#[derive(Clone, Debug)]
pub(crate) struct CommandStatus {
    pub correlation_id: String,
    pub kind: String,
    pub subject_id: Uuid,
    pub state: CommandState,
    /// The reason for a refusal.
    pub detail: Option<String>,
    pub updated_at: Timestamp,
}

/// Whether a request is new.
pub(crate) enum RequestClaim {
    /// The request is new, after `refused_before` refused ones.
    New { refused_before: i64 },
    /// The request was accepted before, and its command is in progress or done.
    AlreadyAccepted(CommandStatus),
}

/// Checks whether a request with this key was accepted before. Locks the key until the transaction ends.
pub(crate) async fn claim_request(tx: &Tx, kind: &str, request_key: &str) -> Result<RequestClaim, DbError> {
    tx.execute(LOCK_KEY, &[&tx.tenant()?.as_str(), &request_key]).await?;
    if let Some(row) = tx.query_opt(ACCEPTED, &[&kind, &request_key]).await? {
        return Ok(RequestClaim::AlreadyAccepted(read(&row)));
    }
    Ok(RequestClaim::New { refused_before: tx.query_one(REFUSED, &[&kind, &request_key]).await?.get(0) })
}

/// Records that a command of this request is in progress.
pub(crate) async fn mark_processing(
    tx: &Tx,
    kind: &str,
    subject_id: Uuid,
    request_key: Option<&str>,
) -> Result<(), DbError> {
    let correlation_id = tx.scope().correlation_id.as_str();
    tx.execute(MARK_PROCESSING, &[&tx.tenant()?.as_str(), &correlation_id, &kind, &subject_id, &request_key])
        .await
        .map(drop)
}

/// Sets the state of a command of this request.
pub(crate) async fn set_command_state(
    tx: &Tx,
    kind: &str,
    subject_id: Uuid,
    state: CommandState,
    detail: Option<&str>,
) -> Result<(), DbError> {
    let correlation_id = tx.scope().correlation_id.as_str();
    let tenant = tx.tenant()?.as_str();
    tx.execute(SET_STATE, &[&tenant, &correlation_id, &kind, &subject_id, &state.as_str(), &detail]).await.map(drop)
}

/// Returns the latest command about a subject.
pub(crate) async fn latest_command(
    tx: &Tx,
    subject_id: Uuid,
    kinds: &[&str],
) -> Result<Option<CommandStatus>, DbError> {
    Ok(tx.query_opt(LATEST, &[&subject_id, &kinds]).await?.as_ref().map(read))
}

/// Whether a loan that does not exist was requested and not refused: it is being created, or was created after the
/// transaction looked for it.
pub(crate) async fn is_creation_accepted(tx: &Tx, loan_id: Uuid) -> Result<bool, DbError> {
    let creation = latest_command(tx, loan_id, &[LoanCreate::TYPE]).await?;
    Ok(creation.is_some_and(|creation| creation.state != CommandState::Refused))
}

/// Returns the tenant's choice for a feature, if it made one.
pub(crate) async fn tenant_feature(tx: &Tx, name: &str) -> Result<Option<bool>, DbError> {
    Ok(tx.query_opt(FEATURE, &[&name]).await?.map(|row| row.get(0)))
}

fn read(row: &Row) -> CommandStatus {
    let state = match row.get(3) {
        "done" => CommandState::Done,
        "refused" => CommandState::Refused,
        _ => CommandState::Processing,
    };
    CommandStatus {
        correlation_id: row.get(0),
        kind: row.get(1),
        subject_id: row.get(2),
        state,
        detail: row.get(4),
        updated_at: row.get(5),
    }
}
