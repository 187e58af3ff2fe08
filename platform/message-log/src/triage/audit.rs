//! Records operators' actions in the audit trail, in the same commit as the actions.

use super::{Operator, TriageOutcome};
use onceward_audit::{AuditError, Entry, record_action};
use onceward_db::{DbError, Tx};
use onceward_envelope::TenantId;
use serde_json::{Map, Value, json};

/// Records an action on letters, one entry per letter, each in the chain of its tenant.
pub(super) fn record_outcomes(
    tx: &mut Tx,
    operator: &Operator,
    event_type: &str,
    outcomes: &[TriageOutcome],
) -> Result<(), DbError> {
    for outcome in outcomes.iter().filter(|outcome| outcome.is_done()) {
        let TriageOutcome { id, queue, tenant, event_id, event_type: letter_type, .. } = outcome;
        let details = [("queue", json!(queue)), ("eventId", json!(event_id)), ("type", json!(letter_type))];
        record_letter(tx, operator, event_type, *id, tenant.as_deref(), details)?;
    }
    Ok(())
}

/// Records an action on one letter. If the tenant cannot be read, as with a malformed message, the entry goes to the
/// platform's chain.
pub(super) fn record_letter(
    tx: &mut Tx,
    operator: &Operator,
    event_type: &str,
    id: i64,
    tenant: Option<&str>,
    details: impl IntoIterator<Item = (&'static str, Value)>,
) -> Result<(), DbError> {
    let tenant = tenant.and_then(|tenant| TenantId::new(tenant).ok());
    let entry = Entry::new(event_type).object("dead_letter", id);
    record(tx, operator, tenant.as_ref(), entry, details)
}

/// Records an operator's action in the chain of `tenant` or in the platform's own.
pub(crate) fn record(
    tx: &mut Tx,
    operator: &Operator,
    tenant: Option<&TenantId>,
    entry: Entry,
    details: impl IntoIterator<Item = (&'static str, Value)>,
) -> Result<(), DbError> {
    let details: Map<String, Value> = details.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    record_action(tx, operator, tenant, entry, details).map_err(not_recorded)
}

/// The error for an action that cannot be recorded and is therefore not done.
pub(crate) fn not_recorded(error: AuditError) -> DbError {
    DbError::Config(format!("nothing was done, because the action cannot be recorded in the audit trail: {error}"))
}
