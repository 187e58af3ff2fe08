//! Taking payments in: each is written down and published once, whoever tells of it and how often.

use crate::LendingError;
use crate::payments::{
    events::{PaymentFailed, PaymentReceived},
    metrics,
    provider::Claim,
    rules::Reason,
    store::{self, Decision, Known, NewConflict, NewIntake},
};
use jiff::Timestamp;
use onceward::{Tx, outbox};
use onceward_audit::{self as audit, Entry};
use onceward_money::Currency;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use uuid::Uuid;

/// What became of a claim.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Taken {
    /// It is a payment now.
    Accepted { payment_id: Uuid, key: String },
    /// It was one already.
    Duplicate { payment_id: Uuid, key: String },
    /// Its transaction is known, and something else was said of it.
    Conflict { conflict_id: Uuid, payment_id: Uuid, differs: Value },
    /// There is no such loan.
    NoLoan { loan_id: Uuid },
    /// Nothing is taken from its provider here.
    NoProvider { provider: &'static str },
}

/// Takes in one claim.
pub(crate) async fn take_in(tx: &mut Tx, claim: Claim, received_at: Timestamp) -> Result<Taken, LendingError> {
    let mut taken = take_all_in(tx, vec![(Uuid::now_v7(), claim)], received_at, &|_, _| {}).await?;
    Ok(taken.pop().expect("there is an outcome for every claim"))
}

/// Takes in many, and tells of each, in their order. Each brings the id that it will have; `enter` is called with its number
/// before anything is published for it.
pub(crate) async fn take_all_in(
    tx: &mut Tx,
    claims: Vec<(Uuid, Claim)>,
    received_at: Timestamp,
    enter: &(dyn Fn(&mut Tx, usize) + Sync),
) -> Result<Vec<Taken>, LendingError> {
    let new: Vec<NewIntake> = claims
        .into_iter()
        .map(|(payment_id, claim)| {
            let effective_date = claim.effective_on(received_at);
            NewIntake { payment_id, key: claim.key(effective_date), effective_date, claim }
        })
        .collect();
    let fresh: HashSet<Uuid> = store::insert_intakes(tx, received_at, &new).await?.into_iter().collect();
    let others: Vec<&NewIntake> = new.iter().filter(|new| !fresh.contains(&new.payment_id)).collect();
    let known = if others.is_empty() { Vec::new() } else { store::find_known(tx, &others).await? };
    let mut known = known.into_iter();
    let mut taken = Vec::with_capacity(new.len());
    for (nth, new) in new.iter().enumerate() {
        enter(tx, nth);
        taken.push(if fresh.contains(&new.payment_id) {
            accept(tx, new, received_at).await?
        } else {
            compare(tx, new, known.next().flatten()).await?
        });
    }
    Ok(taken)
}

async fn accept(tx: &mut Tx, new: &NewIntake, received_at: Timestamp) -> Result<Taken, LendingError> {
    let NewIntake { payment_id, claim, effective_date, key } = new;
    let received = PaymentReceived {
        payment_id: *payment_id,
        loan_id: claim.loan_id,
        method: claim.method,
        amount_minor: claim.amount,
        currency: claim.currency,
        received_at,
        gateway_txn_id: claim.gateway_txn_id.clone(),
        source: claim.provider.to_owned(),
        idempotency_key: key.clone(),
        effective_date: *effective_date,
    };
    let entry = Entry::new("payment_received").object("payment", payment_id).loan(claim.loan_id);
    audit::record(tx, entry.new_value(json!(received)))?;
    if claim.currency == Currency::USD {
        outbox::publish(tx, &received).await?;
    } else {
        fail_at_the_door(tx, new).await?;
    }
    metrics::received(claim.provider, claim.method.as_str());
    Ok(Taken::Accepted { payment_id: *payment_id, key: key.clone() })
}

/// The contract of `payment.received.v1` knows dollars only, so what is no dollars fails here, as the validator would
/// have it fail.
async fn fail_at_the_door(tx: &mut Tx, new: &NewIntake) -> Result<(), LendingError> {
    let (payment_id, loan_id, reason) = (new.payment_id, new.claim.loan_id, Reason::Currency.as_str());
    let (hints, effective_date) = (&new.claim.hints, new.effective_date);
    let decision = Decision { payment_id, reason: Some(reason), hints, effective_date };
    store::save_validations(tx, &[decision]).await?;
    let entry = Entry::new("payment_failed").object("payment", payment_id).loan(loan_id);
    audit::record(tx, entry.payload(json!({ "reason": reason })))?;
    let failed = PaymentFailed { payment_id, loan_id, reason: reason.to_owned(), retry_after: None };
    outbox::publish(tx, &failed).await?;
    Ok(())
}

async fn compare(tx: &mut Tx, new: &NewIntake, known: Option<Known>) -> Result<Taken, LendingError> {
    let Some(known) = known else {
        let provider = new.claim.provider;
        return Ok(match store::has_provider(tx, provider).await? {
            true => Taken::NoLoan { loan_id: new.claim.loan_id },
            false => Taken::NoProvider { provider },
        });
    };
    let differs = differences(&known, &new.claim);
    if differs.is_empty() {
        metrics::duplicate();
        return Ok(Taken::Duplicate { payment_id: known.payment_id, key: known.key });
    }
    let differs = Value::Object(differs);
    let conflict = NewConflict { payment_id: known.payment_id, key: &new.key, differs: &differs, raw: &new.claim.raw };
    let (conflict_id, times) = store::note_conflict(tx, &conflict).await?;
    let entry = Entry::new("payment_conflict_seen").object("payment", known.payment_id).loan(known.loan_id);
    let payload = json!({"conflict_id": conflict_id, "differs": differs, "times": times});
    audit::record(tx, entry.payload(payload))?;
    Ok(Taken::Conflict { conflict_id, payment_id: known.payment_id, differs })
}

/// What is said now and was not said before. A day that is not named does not differ.
fn differences(known: &Known, claim: &Claim) -> Map<String, Value> {
    let mut differs = Map::new();
    let mut note = |name: &str, known: Value, claimed: Value| {
        if known != claimed {
            differs.insert(name.to_owned(), json!({"known": known, "claimed": claimed}));
        }
    };
    note("loan_id", json!(known.loan_id), json!(claim.loan_id));
    note("amount_minor", json!(known.amount), json!(claim.amount));
    note("currency", json!(known.currency), json!(claim.currency));
    if let Some(day) = claim.effective_date {
        note("effective_date", json!(known.effective_date), json!(day));
    }
    differs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payments::events::PaymentMethod;
    use jiff::civil::date;
    use onceward_money::Minor;

    #[test]
    fn only_what_is_said_can_differ() {
        let known = Known {
            payment_id: Uuid::nil(),
            loan_id: Uuid::nil(),
            amount: Minor::new(100),
            currency: Currency::USD,
            effective_date: date(2026, 1, 5),
            key: String::new(),
        };
        let claim = |amount: i64, day: Option<i8>| Claim {
            provider: "mock",
            loan_id: Uuid::nil(),
            method: PaymentMethod::Wire,
            amount: Minor::new(amount),
            currency: Currency::USD,
            gateway_txn_id: "t".into(),
            effective_date: day.map(|day| date(2026, 1, day)),
            hints: Map::new(),
            raw: Value::Null,
        };
        assert!(differences(&known, &claim(100, None)).is_empty());
        assert!(differences(&known, &claim(100, Some(5))).is_empty());
        let differs = Value::Object(differences(&known, &claim(200, Some(6))));
        let expected = json!({
            "amount_minor": {"known": "100", "claimed": "200"},
            "effective_date": {"known": "2026-01-05", "claimed": "2026-01-06"}
        });
        assert_eq!(differs, expected);
    }
}
