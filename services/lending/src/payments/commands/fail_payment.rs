//! Fails a validated payment that the loan's books refuse, so that its money is booked and an operator can settle it
//! like the money of any failed payment.

use super::unapplied::{self, FailedPayment};
use crate::LendingError;
use crate::payments::{
    events::PaymentFailed,
    metrics,
    provider::utc_day,
    rules::FailureReason,
    store::{self, ValidationDecision},
};
use onceward::{Scope, Tx, outbox};
use onceward_audit::{self as audit, Entry};
use serde_json::json;
use uuid::Uuid;

/// Fails a payment because of `refusal`. Its posting must be rolled back first. Returns false if the payment does not
/// exist.
pub(crate) async fn fail_payment(
    tx: &mut Tx,
    scope: &Scope,
    payment_id: Uuid,
    refusal: &LendingError,
) -> Result<bool, LendingError> {
    let Some(stored) = store::load_validations(tx, &[payment_id]).await?.remove(&payment_id) else {
        return Ok(false);
    };
    let (reason, detail) = (FailureReason::PostingRefused.as_str(), refusal.to_string());
    tracing::warn!(
        %payment_id, loan_id = %stored.loan_id, %detail,
        "the loan's books refuse a payment; its money is booked as unapplied cash"
    );
    let received_on = utc_day(stored.received_at);
    let effective_date = stored.decided.map_or(received_on, |(_, day)| day);
    let decision = ValidationDecision { payment_id, reason: Some(reason), hints: &stored.hints, effective_date };
    store::save_validations(tx, &[decision]).await?;
    let failed = FailedPayment {
        payment_id,
        amount: stored.amount,
        currency: stored.currency,
        reason,
        detail: Some(&detail),
        received_on,
        event_id: Uuid::now_v7(),
    };
    unapplied::book(tx, &[failed]).await?;
    let entry = Entry::new("payment_failed").object("payment", payment_id).loan(stored.loan_id);
    let event_id = failed.event_id;
    audit::record_as(tx, scope, entry.payload(json!({"reason": reason, "detail": detail, "event_id": event_id})))?;
    outbox::publish_as(tx, scope, &PaymentFailed::new(payment_id, stored.loan_id, reason, Some(event_id))).await?;
    metrics::refused(tx);
    Ok(true)
}
