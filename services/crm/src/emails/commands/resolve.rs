//! Settles a recipient whose outcome is unknown, after a person has found out.

use crate::{
    CrmError,
    changes::{self, Change},
    emails::{RecipientState, status_of, store},
};
use onceward::Tx;
use serde_json::json;
use uuid::Uuid;

/// What a person found out about a recipient.
pub(crate) struct UnknownResolution<'r> {
    pub email_id: Uuid,
    pub position: i16,
    pub was_sent: bool,
    pub reason: &'r str,
}

/// Records it. Returns `false` if the outcome of this recipient is not unknown.
pub(crate) async fn resolve_unknown(tx: &mut Tx, resolution: &UnknownResolution<'_>) -> Result<bool, CrmError> {
    let UnknownResolution { email_id, position, was_sent, reason } = *resolution;
    let Some(email) = store::lock_email(tx, email_id).await? else { return Ok(false) };
    let state = if was_sent { RecipientState::Accepted } else { RecipientState::Refused };
    if !store::resolve_unknown(tx, email_id, position, state, reason).await? {
        return Ok(false);
    }
    let states: Vec<_> = store::recipients(tx, email_id).await?.iter().map(|recipient| recipient.state).collect();
    let (status, is_final) = status_of(&states);
    let update = store::EmailUpdate { status, is_final, new_attempts: 0, last_error: None, artifact_id: None };
    store::update_email(tx, email_id, &update).await?;
    let change = Change::new("CRM.EMAIL.RESOLVED", "email", email_id)
        .contact(email.contact_id)
        .email(email_id)
        .loan(email.loan_id.as_deref())
        .old(json!({ "state": "unknown" }))
        .new_value(json!({ "state": state.as_str() }))
        .detail(json!({ "position": position, "reason": reason }));
    changes::record(tx, change).await?;
    Ok(true)
}
