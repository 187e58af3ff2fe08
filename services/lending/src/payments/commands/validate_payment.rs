//! Validates payments: decides whether they may be posted.

use super::{
    independent_groups,
    unapplied::{self, FailedPayment},
};
use crate::LendingError;
use crate::Settings;
use crate::payments::{
    events::{PaymentFailed, PaymentReceived, PaymentValidated},
    metrics,
    provider::utc_day,
    rules::{self, PaymentFacts, PaymentLimits},
    store::{self, PaymentToValidate, ValidationDecision},
};
use onceward::{Scope, Tx, outbox};
use onceward_audit::{self as audit, Entry};
use serde_json::json;
use uuid::Uuid;

/// The outcome of a validation message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ValidationOutcome {
    /// The payment was decided now.
    Decided,
    /// The payment was decided before; nothing is published again.
    AlreadyDecided,
    /// The payment does not exist, or differs from the message.
    Unknown(&'static str),
}

/// A received payment to validate, and the scope of the message that reports it.
pub(crate) struct ReceivedPayment<'m> {
    pub event: &'m PaymentReceived,
    pub scope: &'m Scope,
}

/// Decides many payments and publishes an event for each. Returns their outcomes, in no particular order.
pub(crate) async fn validate_payments(
    tx: &mut Tx,
    settings: &Settings,
    payments: &[ReceivedPayment<'_>],
) -> Result<Vec<ValidationOutcome>, LendingError> {
    let limits = PaymentLimits::from(settings);
    let mut outcomes = Vec::with_capacity(payments.len());
    // A payment that occurs twice in one batch is decided once; the second time it is known.
    for group in independent_groups(payments, |payment| payment.event.payment_id) {
        let ids: Vec<Uuid> = group.iter().map(|payment| payment.event.payment_id).collect();
        let stored = store::load_validations(tx, &ids).await?;
        let (mut decisions, mut failures) = (Vec::with_capacity(group.len()), Vec::new());
        for ReceivedPayment { event, scope } in group {
            let stored = match undecided(event, stored.get(&event.payment_id)) {
                Ok(stored) => stored,
                Err(outcome) => {
                    outcomes.push(outcome);
                    continue;
                }
            };
            let result = rules::check(&facts(event, stored), limits);
            let reason = result.err().map(rules::FailureReason::as_str);
            let failure = reason.map(|reason| failure(event.payment_id, stored, reason));
            match &failure {
                Some(failure) => publish_failed(tx, scope, event, failure).await?,
                None => publish_validated(tx, scope, event, stored).await?,
            }
            failures.extend(failure);
            let PaymentReceived { payment_id, effective_date, .. } = **event;
            decisions.push(ValidationDecision { payment_id, reason, hints: &stored.hints, effective_date });
            metrics::validated(tx, result, stored.received_at);
            outcomes.push(ValidationOutcome::Decided);
        }
        store::save_validations(tx, &decisions).await?;
        unapplied::book(tx, &failures).await?;
    }
    Ok(outcomes)
}

/// Returns the stored data of a payment that has to be decided, or the outcome if it must not be.
fn undecided<'s>(
    event: &PaymentReceived,
    stored: Option<&'s PaymentToValidate>,
) -> Result<&'s PaymentToValidate, ValidationOutcome> {
    let Some(stored) = stored else {
        return Err(ValidationOutcome::Unknown("no payment with this id was received"));
    };
    if (event.loan_id, event.amount_minor, event.currency) != (stored.loan_id, stored.amount, stored.currency) {
        let reason = "the payment with this id was received with another loan, amount or currency";
        return Err(ValidationOutcome::Unknown(reason));
    }
    match stored.decided {
        // The money is booked, so nothing more can be decided.
        _ if stored.posted => Err(ValidationOutcome::AlreadyDecided),
        Some((true, day)) if day == event.effective_date => Err(ValidationOutcome::AlreadyDecided),
        Some((false, _)) => Err(ValidationOutcome::AlreadyDecided),
        _ => Ok(stored),
    }
}

fn facts<'s>(event: &PaymentReceived, stored: &'s PaymentToValidate) -> PaymentFacts<'s> {
    PaymentFacts {
        loan: stored.loan,
        amount: stored.amount,
        currency: stored.currency,
        received_on: utc_day(stored.received_at),
        latest: utc_day(stored.received_at),
        effective_date: event.effective_date,
        hints: &stored.hints,
    }
}

fn failure(payment_id: Uuid, stored: &PaymentToValidate, reason: &'static str) -> FailedPayment<'static> {
    FailedPayment {
        payment_id,
        amount: stored.amount,
        currency: stored.currency,
        reason,
        detail: None,
        received_on: utc_day(stored.received_at),
        event_id: Uuid::now_v7(),
    }
}

async fn publish_failed(
    tx: &mut Tx,
    scope: &Scope,
    event: &PaymentReceived,
    failure: &FailedPayment<'_>,
) -> Result<(), LendingError> {
    let PaymentReceived { payment_id, loan_id, .. } = *event;
    let entry = Entry::new("payment_failed").object("payment", payment_id).loan(loan_id);
    let payload = json!({"reason": failure.reason, "event_id": failure.event_id});
    audit::record_as(tx, scope, entry.payload(payload))?;
    let failed = PaymentFailed::new(payment_id, loan_id, failure.reason, Some(failure.event_id));
    outbox::publish_as(tx, scope, &failed).await?;
    Ok(())
}

async fn publish_validated(
    tx: &mut Tx,
    scope: &Scope,
    event: &PaymentReceived,
    stored: &PaymentToValidate,
) -> Result<(), LendingError> {
    let PaymentReceived { payment_id, loan_id, effective_date, .. } = *event;
    let entry = Entry::new("payment_validated").object("payment", payment_id).loan(loan_id);
    audit::record_as(tx, scope, entry.payload(json!({ "effective_date": effective_date })))?;
    let validated = PaymentValidated {
        payment_id,
        loan_id,
        amount_minor: stored.amount,
        currency: stored.currency,
        effective_date,
        allocation_hints: stored.hints.clone(),
    };
    outbox::publish_as(tx, scope, &validated).await?;
    Ok(())
}
