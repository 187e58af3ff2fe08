//! Stripe's events.
//!
//! A payment is a payment intent that succeeded, or a charge that succeeded without one. `metadata.loan_id` of the object
//! names the loan; `metadata.bucket` may name what it shall pay. It counts from the day on which Stripe says that it
//! happened, so an event that reaches us late costs the borrower nothing.

use super::{Claim, Fields, STRIPE, Wrong, utc_day};
use crate::model::Hints;
use crate::payments::events::PaymentMethod;
use jiff::{Timestamp, civil::Date};
use onceward_money::{Currency, Minor};
use serde_json::{Map, Value, json};

/// What an event tells of.
#[derive(Debug)]
pub(crate) enum Told {
    /// A payment.
    Payment(Box<Claim>),
    /// Something that is no payment.
    Nothing,
}

pub(crate) fn read(event: &Value) -> Result<Told, Vec<Wrong>> {
    let object = &event["data"]["object"];
    let kind = event["type"].as_str().unwrap_or_default();
    let (amount, id) = match kind {
        "payment_intent.succeeded" => ("amount_received", "id"),
        "charge.succeeded" if object["payment_intent"].is_null() => ("amount", "id"),
        "" => return Err(vec![wrong("/type", "is required")]),
        _ => return Ok(Told::Nothing),
    };
    let mut fields = Fields::of(object);
    let metadata = &object["metadata"];
    let gateway_txn_id = fields.transaction(id);
    let loan_id = loan(&mut fields, metadata);
    let amount = minor(&mut fields, amount);
    let currency = currency(&mut fields);
    let hints = hints(&mut fields, metadata);
    let effective_date = happened_on(&mut fields, event);
    let claim = || {
        Some(Box::new(Claim {
            provider: STRIPE,
            loan_id: loan_id?,
            method: method(object),
            amount: amount?,
            currency: currency?,
            gateway_txn_id: gateway_txn_id?,
            effective_date: Some(effective_date?),
            hints: hints?,
            raw: event.clone(),
        }))
    };
    let claim = claim();
    fields.finish(claim).map(Told::Payment).map_err(|wrong| wrong.into_iter().map(inside).collect())
}

fn loan(fields: &mut Fields<'_>, metadata: &Value) -> Option<uuid::Uuid> {
    let id = metadata["loan_id"].as_str().and_then(|text| text.parse().ok());
    if id.is_none() {
        fields.refuse("metadata/loan_id", "must be the id of a loan, a UUID");
    }
    id
}

/// Stripe counts in the smallest unit, in whole numbers.
fn minor(fields: &mut Fields<'_>, name: &str) -> Option<Minor> {
    let amount = fields.get(name).and_then(Value::as_i64).map(Minor::new).filter(|amount| amount.is_positive());
    if amount.is_none() {
        fields.refuse(name, "must be a whole number above 0, in the smallest unit");
    }
    amount
}

/// Stripe writes currencies in small letters.
fn currency(fields: &mut Fields<'_>) -> Option<Currency> {
    let currency = fields.text("currency")?.to_ascii_uppercase().parse().ok();
    if currency.is_none() {
        fields.refuse("currency", "must be the three letters of a currency");
    }
    currency
}

fn hints(fields: &mut Fields<'_>, metadata: &Value) -> Option<Map<String, Value>> {
    let Some(bucket) = metadata["bucket"].as_str() else {
        return Some(Map::new());
    };
    let hints = json!({ "bucket": bucket });
    match serde_json::from_value::<Hints>(hints.clone()) {
        Ok(_) => hints.as_object().cloned(),
        Err(error) => {
            fields.refuse("metadata/bucket", error.to_string());
            None
        }
    }
}

fn happened_on(fields: &mut Fields<'_>, event: &Value) -> Option<Date> {
    let created = event["created"].as_i64().and_then(|seconds| Timestamp::from_second(seconds).ok());
    if created.is_none() {
        fields.refuse("/created", "must be the seconds since 1970 at which it happened");
    }
    created.map(utc_day)
}

fn method(object: &Value) -> PaymentMethod {
    let listed = object["payment_method_types"][0].as_str();
    match listed.or(object["payment_method_details"]["type"].as_str()) {
        Some("us_bank_account" | "ach_debit" | "ach_credit_transfer") => PaymentMethod::Ach,
        Some("card") => PaymentMethod::Card,
        Some("customer_balance") => PaymentMethod::Wire,
        _ => PaymentMethod::Other,
    }
}

fn wrong(path: &str, message: &str) -> Wrong {
    Wrong { path: path.to_owned(), message: message.to_owned() }
}

/// The fields were read from the object inside the event.
fn inside(wrong: Wrong) -> Wrong {
    if wrong.path == "/created" { wrong } else { Wrong { path: format!("/data/object{}", wrong.path), ..wrong } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> Value {
        json!({
            "id": "evt_1", "type": "payment_intent.succeeded", "created": 1_769_900_000,
            "data": {"object": {
                "id": "pi_1", "object": "payment_intent", "amount": 9999, "amount_received": 5000, "currency": "usd",
                "payment_method_types": ["us_bank_account"],
                "metadata": {"loan_id": "018f3c9e-0000-7000-8000-000000000001", "bucket": "principal"}
            }}
        })
    }

    #[test]
    fn a_payment_intent_that_succeeded_is_a_payment_of_what_was_received() {
        let Told::Payment(claim) = read(&event()).unwrap() else { panic!("it is a payment") };
        assert_eq!(
            (claim.gateway_txn_id.as_str(), claim.amount, claim.currency),
            ("pi_1", Minor::new(5000), Currency::USD)
        );
        assert_eq!(claim.method, PaymentMethod::Ach);
        assert_eq!(claim.effective_date, Some("2026-01-31".parse().unwrap()));
        assert_eq!(claim.hints["bucket"], "principal");
    }

    #[test]
    fn a_charge_counts_only_where_no_intent_tells_of_the_same_money() {
        let mut charge = event();
        charge["type"] = json!("charge.succeeded");
        charge["data"]["object"]["payment_intent"] = json!("pi_1");
        assert!(matches!(read(&charge), Ok(Told::Nothing)));
        charge["data"]["object"]["payment_intent"] = Value::Null;
        let Told::Payment(claim) = read(&charge).unwrap() else { panic!("it is a payment") };
        assert_eq!(claim.amount, Minor::new(9999));
        charge["type"] = json!("customer.created");
        assert!(matches!(read(&charge), Ok(Told::Nothing)));
    }

    #[test]
    fn what_cannot_be_read_is_told_by_its_place() {
        let paths = |change: fn(&mut Value)| -> Vec<String> {
            let mut event = event();
            change(&mut event);
            read(&event).unwrap_err().into_iter().map(|wrong| wrong.path).collect()
        };
        assert_eq!(
            paths(|event| event["data"]["object"]["amount_received"] = json!(50.5)),
            ["/data/object/amount_received"]
        );
        assert_eq!(
            paths(|event| event["data"]["object"]["amount_received"] = json!(0)),
            ["/data/object/amount_received"]
        );
        assert_eq!(paths(|event| event["data"]["object"]["currency"] = json!("$")), ["/data/object/currency"]);
        assert_eq!(paths(|event| event["data"]["object"]["metadata"] = json!({})), ["/data/object/metadata/loan_id"]);
        assert_eq!(paths(|event| event["created"] = json!("today")), ["/created"]);
        assert_eq!(paths(|event| event["type"] = Value::Null), ["/type"]);
        assert_eq!(
            paths(|event| event["data"]["object"]["metadata"]["bucket"] = json!("beer")),
            ["/data/object/metadata/bucket"]
        );
    }
}
