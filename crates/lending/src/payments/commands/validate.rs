//! Deciding whether a payment may be posted.

use crate::LendingError;
use crate::Settings;
use crate::payments::{
    events::{PaymentFailed, PaymentReceived, PaymentValidated},
    metrics,
    provider::utc_day,
    rules::{self, Facts, Limits},
    store::{self, Validation},
};
use jiff::Timestamp;
use onceward::{Tx, outbox};
use onceward_audit::{self as audit, Entry};
use onceward_money::Minor;
use serde_json::json;

/// What a message can be about.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decided {
    /// It was decided now.
    Now,
    /// It was decided before; nothing is published again.
    Before,
    /// There is no such payment, or it is another one than the message says.
    Unknown(&'static str),
}

pub(crate) async fn validate(
    tx: &mut Tx,
    settings: &Settings,
    received: &PaymentReceived,
    now: Timestamp,
) -> Result<Decided, LendingError> {
    let Some(known) = store::load_validation(tx, received.payment_id).await? else {
        return Ok(Decided::Unknown("no payment of this id was taken in"));
    };
    if !is_about(received, &known) {
        return Ok(Decided::Unknown("the payment of this id was taken in with another loan, amount or currency"));
    }
    match known.decided {
        Some((true, day)) if day == received.effective_date => return Ok(Decided::Before),
        Some((false, _)) => return Ok(Decided::Before),
        _ => {}
    }
    let facts = Facts {
        loan: known.loan,
        amount: known.amount,
        currency: known.currency,
        received_on: utc_day(known.received_at),
        effective_date: received.effective_date,
        hints: &known.hints,
    };
    let limits =
        Limits { max: Minor::new(settings.payment_max_minor), max_staleness_days: settings.payment_max_staleness_days };
    let outcome = rules::check(&facts, limits);
    let reason = outcome.err().map(rules::Reason::as_str);
    store::save_validation(tx, received.payment_id, reason, &known.hints, received.effective_date).await?;
    publish(tx, received, &known, reason).await?;
    metrics::validated(outcome, known.received_at, now);
    Ok(Decided::Now)
}

fn is_about(received: &PaymentReceived, known: &Validation) -> bool {
    (received.loan_id, received.amount_minor, received.currency) == (known.loan_id, known.amount, known.currency)
}

async fn publish(
    tx: &mut Tx,
    received: &PaymentReceived,
    known: &Validation,
    reason: Option<&'static str>,
) -> Result<(), LendingError> {
    let PaymentReceived { payment_id, loan_id, effective_date, .. } = *received;
    let entry = |what: &str| Entry::new(what).object("payment", payment_id).loan(loan_id);
    if let Some(reason) = reason {
        audit::record(tx, entry("payment_failed").payload(json!({ "reason": reason })))?;
        let failed = PaymentFailed { payment_id, loan_id, reason: reason.to_owned(), retry_after: None };
        outbox::publish(tx, &failed).await?;
        return Ok(());
    }
    audit::record(tx, entry("payment_validated").payload(json!({ "effective_date": effective_date })))?;
    let validated = PaymentValidated {
        payment_id,
        loan_id,
        amount_minor: known.amount,
        currency: known.currency,
        effective_date,
        allocation_hints: known.hints.clone(),
    };
    outbox::publish(tx, &validated).await?;
    Ok(())
}
