//! Deciding whether a payment may be posted.

use crate::LendingError;
use crate::Settings;
use crate::payments::{
    events::{PaymentFailed, PaymentReceived, PaymentValidated},
    metrics,
    provider::utc_day,
    rules::{self, Facts, Limits},
    store::{self, Decision, Validation},
    waves::waves,
};
use jiff::Timestamp;
use onceward::{Tx, outbox};
use onceward_audit::{self as audit, Entry};
use onceward_money::Minor;
use serde_json::json;
use uuid::Uuid;

/// What a message can be about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decided {
    /// It was decided now.
    Now,
    /// It was decided before; nothing is published again.
    Before,
    /// There is no such payment, or it is another one than the message says.
    Unknown(&'static str),
}

/// Decides of many, and tells of each, in their order. `enter` is called with its number before anything is published for it.
pub(crate) async fn validate_all(
    tx: &mut Tx,
    settings: &Settings,
    all: &[&PaymentReceived],
    now: Timestamp,
    enter: &(dyn Fn(&mut Tx, usize) + Sync),
) -> Result<Vec<Decided>, LendingError> {
    let limits =
        Limits { max: Minor::new(settings.payment_max_minor), max_staleness_days: settings.payment_max_staleness_days };
    let mut decided = vec![Decided::Before; all.len()];
    // What is told twice in one go is decided once, and the second time it is known.
    for wave in waves(all.iter().map(|received| received.payment_id)) {
        let payments: Vec<Uuid> = wave.iter().map(|&nth| all[nth].payment_id).collect();
        let known = store::load_validations(tx, &payments).await?;
        let mut decisions = Vec::with_capacity(wave.len());
        for nth in wave {
            let received = all[nth];
            let known = match to_decide(received, known.get(&received.payment_id)) {
                Ok(known) => known,
                Err(outcome) => {
                    decided[nth] = outcome;
                    continue;
                }
            };
            let outcome = rules::check(&facts(received, known), limits);
            let reason = outcome.err().map(rules::Reason::as_str);
            enter(tx, nth);
            publish(tx, received, known, reason).await?;
            let PaymentReceived { payment_id, effective_date, .. } = *received;
            decisions.push(Decision { payment_id, reason, hints: &known.hints, effective_date });
            metrics::validated(outcome, known.received_at, now);
            decided[nth] = Decided::Now;
        }
        store::save_validations(tx, &decisions).await?;
    }
    Ok(decided)
}

/// What is known of a payment that has to be decided of, or why it has not.
fn to_decide<'k>(received: &PaymentReceived, known: Option<&'k Validation>) -> Result<&'k Validation, Decided> {
    let Some(known) = known else {
        return Err(Decided::Unknown("no payment of this id was taken in"));
    };
    if !is_about(received, known) {
        return Err(Decided::Unknown("the payment of this id was taken in with another loan, amount or currency"));
    }
    match known.decided {
        Some((true, day)) if day == received.effective_date => Err(Decided::Before),
        Some((false, _)) => Err(Decided::Before),
        _ => Ok(known),
    }
}

fn facts<'k>(received: &PaymentReceived, known: &'k Validation) -> Facts<'k> {
    Facts {
        loan: known.loan,
        amount: known.amount,
        currency: known.currency,
        received_on: utc_day(known.received_at),
        effective_date: received.effective_date,
        hints: &known.hints,
    }
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
