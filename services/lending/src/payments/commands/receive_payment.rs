//! Receives payments: each is stored and published once, whatever its source and however often it is reported.

use super::unapplied::{self, FailedPayment};
use crate::LendingError;
use crate::payments::{
    CURRENCY,
    events::{PaymentFailed, PaymentReceived},
    metrics,
    provider::{ReportedPayment, utc_day},
    rules::FailureReason,
    store::{self, KnownPayment, NewConflict, NewIntake, ValidationDecision},
};
use jiff::{Timestamp, civil::Date};
use onceward::{Scope, Tx, envelope::fingerprint_hex, outbox};
use onceward_audit::{self as audit, Entry};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use uuid::Uuid;

/// The outcome for a reported payment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ReceiveOutcome {
    /// The payment was accepted.
    Accepted { payment_id: Uuid, key: String },
    /// The payment was accepted before.
    Duplicate { payment_id: Uuid, key: String },
    /// The transaction is known with different data.
    Conflict { conflict_id: Uuid, payment_id: Uuid, differs: Value },
    /// The payment was requested from us directly, and its loan does not exist.
    LoanMissing { loan_id: Uuid },
    /// Payments from its provider are not accepted here.
    ProviderUnknown { provider: &'static str },
}

/// A reported payment to receive.
pub(crate) struct IncomingPayment<'s> {
    /// The payment's id, if it is new.
    pub payment_id: Uuid,
    pub reported: ReportedPayment,
    /// The scope of the request or message that reported it.
    pub scope: &'s Scope,
}

/// Receives one payment in the transaction's own scope.
pub(crate) async fn receive_payment(
    tx: &mut Tx,
    reported: ReportedPayment,
    received_at: Timestamp,
) -> Result<ReceiveOutcome, LendingError> {
    receive_payment_with_id(tx, Uuid::now_v7(), reported, received_at).await
}

/// As [`receive_payment`], with the id that the payment gets if it is new.
pub(crate) async fn receive_payment_with_id(
    tx: &mut Tx,
    payment_id: Uuid,
    reported: ReportedPayment,
    received_at: Timestamp,
) -> Result<ReceiveOutcome, LendingError> {
    let scope = tx.scope().clone();
    let incoming = IncomingPayment { payment_id, reported, scope: &scope };
    let mut outcomes = receive_payments(tx, vec![incoming], received_at).await?;
    Ok(outcomes.pop().expect("every payment has an outcome"))
}

/// Receives many payments and publishes an event for each. Returns their outcomes in the same order.
pub(crate) async fn receive_payments(
    tx: &mut Tx,
    payments: Vec<IncomingPayment<'_>>,
    received_at: Timestamp,
) -> Result<Vec<ReceiveOutcome>, LendingError> {
    let new = payments.into_iter().map(|IncomingPayment { payment_id, reported, scope }| {
        let effective_date = reported.effective_date.unwrap_or_else(|| utc_day(received_at));
        let key = idempotency_key(&reported, effective_date);
        NewIntake { payment_id, key, effective_date, reported, scope }
    });
    let new: Vec<NewIntake<'_>> = new.collect();
    let inserted: HashSet<Uuid> = store::insert_intakes(tx, received_at, &new).await?.into_iter().collect();
    let others: Vec<&NewIntake<'_>> = new.iter().filter(|new| !inserted.contains(&new.payment_id)).collect();
    let known = if others.is_empty() { Vec::new() } else { store::find_known(tx, &others).await? };
    let mut known = known.into_iter();
    let mut outcomes = Vec::with_capacity(new.len());
    for new in &new {
        outcomes.push(if inserted.contains(&new.payment_id) {
            accept(tx, new, received_at).await?
        } else {
            compare(tx, new, known.next().flatten()).await?
        });
    }
    Ok(outcomes)
}

/// Returns `SHA256(loan_id|gateway_txn_id|amount_minor|currency|effective_date)` as 64 hexadecimal digits. The format is
/// fixed for compatibility with existing consumers.
///
/// It is the correlation id of the payment's messages up to its posting, and is returned to callers. It does not
/// contain the provider, so it does not identify a payment alone: a payment is one transaction of one provider.
fn idempotency_key(reported: &ReportedPayment, effective_date: Date) -> String {
    let ReportedPayment { loan_id, gateway_txn_id, amount, currency, .. } = reported;
    fingerprint_hex(format!("{loan_id}|{gateway_txn_id}|{amount}|{currency}|{effective_date}"))
}

async fn accept(tx: &mut Tx, new: &NewIntake<'_>, received_at: Timestamp) -> Result<ReceiveOutcome, LendingError> {
    let NewIntake { payment_id, reported, effective_date, key, scope } = new;
    let received = PaymentReceived {
        payment_id: *payment_id,
        loan_id: reported.loan_id,
        method: reported.method,
        amount_minor: reported.amount,
        currency: reported.currency,
        received_at,
        gateway_txn_id: reported.gateway_txn_id.clone(),
        source: reported.provider.to_owned(),
        idempotency_key: key.clone(),
        effective_date: *effective_date,
    };
    let entry = Entry::new("payment_received").object("payment", payment_id).loan(reported.loan_id);
    audit::record_as(tx, scope, entry.new_value(json!(received)))?;
    if reported.currency == CURRENCY {
        outbox::publish_as(tx, scope, &received).await?;
    } else {
        fail_for_currency(tx, new, received_at).await?;
    }
    metrics::received(tx, reported.provider, reported.method.as_str());
    Ok(ReceiveOutcome::Accepted { payment_id: *payment_id, key: key.clone() })
}

/// The contract of `payment.received.v1` allows only USD, so other currencies fail here, as they would in the
/// validator, and with the same correlation id.
async fn fail_for_currency(tx: &mut Tx, new: &NewIntake<'_>, received_at: Timestamp) -> Result<(), LendingError> {
    let (payment_id, loan_id, reason) = (new.payment_id, new.reported.loan_id, FailureReason::Currency.as_str());
    let (hints, effective_date) = (&new.reported.hints, new.effective_date);
    let decision = ValidationDecision { payment_id, reason: Some(reason), hints, effective_date };
    store::save_validations(tx, &[decision]).await?;
    let failed = FailedPayment {
        payment_id,
        amount: new.reported.amount,
        currency: new.reported.currency,
        reason,
        detail: None,
        received_on: utc_day(received_at),
        event_id: Uuid::now_v7(),
    };
    unapplied::book(tx, &[failed]).await?;
    let entry = Entry::new("payment_failed").object("payment", payment_id).loan(loan_id);
    audit::record_as(tx, new.scope, entry.payload(json!({ "reason": reason, "event_id": failed.event_id })))?;
    let event = PaymentFailed::new(payment_id, loan_id, reason, Some(failed.event_id)).in_story(&new.key);
    outbox::publish_as(tx, new.scope, &event).await?;
    metrics::validated(tx, Err(FailureReason::Currency), received_at);
    Ok(())
}

async fn compare(
    tx: &mut Tx,
    new: &NewIntake<'_>,
    known: Option<KnownPayment>,
) -> Result<ReceiveOutcome, LendingError> {
    let Some(known) = known else {
        let provider = new.reported.provider;
        return Ok(match store::has_provider(tx, provider).await? {
            true => ReceiveOutcome::LoanMissing { loan_id: new.reported.loan_id },
            false => ReceiveOutcome::ProviderUnknown { provider },
        });
    };
    let differs = differences(&known, &new.reported);
    if differs.is_empty() {
        metrics::duplicate(tx);
        return Ok(ReceiveOutcome::Duplicate { payment_id: known.payment_id, key: known.key });
    }
    let differs = Value::Object(differs);
    let conflict =
        NewConflict { payment_id: known.payment_id, key: &new.key, differs: &differs, raw: &new.reported.raw };
    let (conflict_id, times) = store::record_conflict(tx, &conflict).await?;
    let entry = Entry::new("payment_conflict_seen").object("payment", known.payment_id).loan(known.loan_id);
    let payload = json!({"conflict_id": conflict_id, "differs": differs, "times": times});
    audit::record_as(tx, new.scope, entry.payload(payload))?;
    Ok(ReceiveOutcome::Conflict { conflict_id, payment_id: known.payment_id, differs })
}

/// Returns the values that differ from the known payment. A missing day does not differ.
fn differences(known: &KnownPayment, reported: &ReportedPayment) -> Map<String, Value> {
    let mut differs = Map::new();
    let mut compare = |name: &str, known: Value, claimed: Value| {
        if known != claimed {
            differs.insert(name.to_owned(), json!({"known": known, "claimed": claimed}));
        }
    };
    compare("loan_id", json!(known.loan_id), json!(reported.loan_id));
    compare("amount_minor", json!(known.amount), json!(reported.amount));
    compare("currency", json!(known.currency), json!(reported.currency));
    if let Some(day) = reported.effective_date {
        compare("effective_date", json!(known.effective_date), json!(day));
    }
    differs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payments::events::PaymentMethod;
    use jiff::civil::date;
    use onceward_money::{Currency, Minor};

    fn reported(amount: i64, effective_date: Option<Date>) -> ReportedPayment {
        ReportedPayment {
            provider: "mock",
            loan_id: "018f3c9e-0000-7000-8000-000000000001".parse().unwrap(),
            method: PaymentMethod::Wire,
            amount: Minor::new(amount),
            currency: Currency::USD,
            gateway_txn_id: "tx-1".into(),
            effective_date,
            hints: Map::new(),
            raw: Value::Null,
        }
    }

    #[test]
    fn the_idempotency_key_is_the_hash_of_its_parts() {
        let key_of = |amount| idempotency_key(&reported(amount, None), date(2026, 1, 5));
        // printf '018f3c9e-0000-7000-8000-000000000001|tx-1|12345|USD|2026-01-05' | sha256sum
        assert_eq!(key_of(12345), "32f3cd5c692502138dba2ffdfee41abd8c7086584848ba262683dd5b722e4490");
        assert_ne!(key_of(12346), key_of(12345));
    }

    #[test]
    fn a_field_that_is_not_reported_does_not_differ() {
        let known = KnownPayment {
            payment_id: Uuid::nil(),
            loan_id: reported(100, None).loan_id,
            amount: Minor::new(100),
            currency: Currency::USD,
            effective_date: date(2026, 1, 5),
            key: String::new(),
        };
        let differs = |amount, day| differences(&known, &reported(amount, day));
        assert!(differs(100, None).is_empty());
        assert!(differs(100, Some(date(2026, 1, 5))).is_empty());
        let expected = json!({
            "amount_minor": {"known": "100", "claimed": "200"},
            "effective_date": {"known": "2026-01-05", "claimed": "2026-01-06"}
        });
        assert_eq!(Value::Object(differs(200, Some(date(2026, 1, 6)))), expected);
    }
}
