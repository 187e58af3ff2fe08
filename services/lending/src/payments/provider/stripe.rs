//! Stripe's events.
//!
//! A payment is a payment intent that succeeded, or a charge that succeeded without one. `metadata.loan_id` of the
//! object names the loan; `metadata.bucket` may name the bucket to pay. It counts from the day on which it happened
//! according to Stripe, so an event that reaches us late costs the borrower nothing.

use super::{InvalidField, PayloadReader, ReportedPayment, STRIPE, utc_day};
use crate::model::AllocationHints;
use crate::payments::events::PaymentMethod;
use jiff::{Timestamp, civil::Date};
use onceward_money::{Currency, Minor};
use serde_json::{Map, Value, json};

/// The content of an event.
#[derive(Debug)]
pub(crate) enum StripeEvent {
    /// A payment.
    Payment(Box<ReportedPayment>),
    /// Something other than a payment.
    Other,
}

/// Reads an event.
pub(crate) fn read(event: &Value) -> Result<StripeEvent, Vec<InvalidField>> {
    let object = &event["data"]["object"];
    let kind = event["type"].as_str().unwrap_or_default();
    let (amount, id) = match kind {
        "payment_intent.succeeded" => ("amount_received", "id"),
        "charge.succeeded" if object["payment_intent"].is_null() => ("amount", "id"),
        "" => return Err(vec![error("/type", "is required")]),
        _ => return Ok(StripeEvent::Other),
    };
    let mut fields = PayloadReader::new(object);
    let metadata = &object["metadata"];
    let gateway_txn_id = fields.transaction(id);
    let loan_id = loan(&mut fields, metadata);
    let amount = minor(&mut fields, amount);
    let currency = currency(&mut fields);
    let hints = hints(&mut fields, metadata);
    let effective_date = happened_on(&mut fields, event);
    let payment = || {
        Some(Box::new(ReportedPayment {
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
    let payment = payment();
    fields
        .finish(payment)
        .map(StripeEvent::Payment)
        .map_err(|errors| errors.into_iter().map(relative_to_event).collect())
}

fn loan(fields: &mut PayloadReader<'_>, metadata: &Value) -> Option<uuid::Uuid> {
    let id = metadata["loan_id"].as_str().and_then(|text| text.parse().ok());
    if id.is_none() {
        fields.reject("metadata/loan_id", "must be the id of a loan, a UUID");
    }
    id
}

/// Reads an amount, which Stripe sends in the smallest unit, as an integer.
fn minor(fields: &mut PayloadReader<'_>, name: &str) -> Option<Minor> {
    let amount = fields.get(name).and_then(Value::as_i64).map(Minor::new).filter(|amount| amount.is_positive());
    if amount.is_none() {
        fields.reject(name, "must be a whole number greater than 0, in the smallest unit");
    }
    amount
}

/// Reads a currency, which Stripe writes in lower case.
fn currency(fields: &mut PayloadReader<'_>) -> Option<Currency> {
    let currency = fields.text("currency")?.to_ascii_uppercase().parse().ok();
    if currency.is_none() {
        fields.reject("currency", "must be the three letters of a currency");
    }
    currency
}

fn hints(fields: &mut PayloadReader<'_>, metadata: &Value) -> Option<Map<String, Value>> {
    let Some(bucket) = metadata["bucket"].as_str() else {
        return Some(Map::new());
    };
    let hints = json!({ "bucket": bucket });
    match serde_json::from_value::<AllocationHints>(hints.clone()) {
        Ok(_) => hints.as_object().cloned(),
        Err(error) => {
            fields.reject("metadata/bucket", error.to_string());
            None
        }
    }
}

fn happened_on(fields: &mut PayloadReader<'_>, event: &Value) -> Option<Date> {
    let created = event["created"].as_i64().and_then(|seconds| Timestamp::from_second(seconds).ok());
    if created.is_none() {
        fields.reject("/created", "must be the time of the event in seconds since 1970");
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

fn error(path: &str, message: &str) -> InvalidField {
    InvalidField { path: path.to_owned(), message: message.to_owned() }
}

/// Adjusts the path: the fields were read from the object inside the event.
fn relative_to_event(error: InvalidField) -> InvalidField {
    if error.path == "/created" { error } else { InvalidField { path: format!("/data/object{}", error.path), ..error } }
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
    fn a_successful_payment_intent_is_a_payment_of_the_received_amount() {
        let StripeEvent::Payment(payment) = read(&event()).unwrap() else { panic!("it is a payment") };
        assert_eq!(
            (payment.gateway_txn_id.as_str(), payment.amount, payment.currency),
            ("pi_1", Minor::new(5000), Currency::USD)
        );
        assert_eq!(payment.method, PaymentMethod::Ach);
        assert_eq!(payment.effective_date, Some("2026-01-31".parse().unwrap()));
        assert_eq!(payment.hints["bucket"], "principal");
    }

    #[test]
    fn a_charge_counts_only_without_a_payment_intent() {
        let mut charge = event();
        charge["type"] = json!("charge.succeeded");
        charge["data"]["object"]["payment_intent"] = json!("pi_1");
        assert!(matches!(read(&charge), Ok(StripeEvent::Other)));
        charge["data"]["object"]["payment_intent"] = Value::Null;
        let StripeEvent::Payment(payment) = read(&charge).unwrap() else { panic!("it is a payment") };
        assert_eq!(payment.amount, Minor::new(9999));
        charge["type"] = json!("customer.created");
        assert!(matches!(read(&charge), Ok(StripeEvent::Other)));
    }

    #[test]
    fn an_error_names_its_field_in_the_event() {
        let paths = |change: fn(&mut Value)| -> Vec<String> {
            let mut event = event();
            change(&mut event);
            read(&event).unwrap_err().into_iter().map(|error| error.path).collect()
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
            paths(|event| event["data"]["object"]["metadata"]["bucket"] = json!("unknown")),
            ["/data/object/metadata/bucket"]
        );
    }
}
