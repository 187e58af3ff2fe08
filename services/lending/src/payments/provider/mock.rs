//! The mock gateway: our own JSON format.
//!
//! `txn_id`, `loan_id`, and either `amount_minor` ("12345") or `amount` ("123.45") are required; `currency`, `method`,
//! `effective_date` and `allocation_hints` are optional. Other fields are stored but ignored.

use super::{InvalidField, MOCK, PayloadReader, ReportedPayment};
use crate::payments::events::PaymentMethod;
use onceward_money::{Currency, Minor};
use serde_json::Value;

/// Reads one payment.
pub(crate) fn read(payload: &Value) -> Result<ReportedPayment, Vec<InvalidField>> {
    let mut fields = PayloadReader::new(payload);
    let gateway_txn_id = fields.transaction("txn_id");
    let loan_id = fields.loan("loan_id");
    let currency = fields.currency("currency");
    let amount = amount(&mut fields, currency);
    let method = fields.method("method", PaymentMethod::Other);
    let effective_date = fields.day("effective_date");
    let hints = fields.hints("allocation_hints");
    let payment = || {
        Some(ReportedPayment {
            provider: MOCK,
            loan_id: loan_id?,
            method: method?,
            amount: amount?,
            currency: currency?,
            gateway_txn_id: gateway_txn_id?,
            effective_date: effective_date?,
            hints: hints?,
            raw: payload.clone(),
        })
    };
    let payment = payment();
    fields.finish(payment)
}

fn amount(fields: &mut PayloadReader<'_>, currency: Option<Currency>) -> Option<Minor> {
    match (fields.get("amount_minor"), fields.get("amount")) {
        (Some(_), Some(_)) => fields.reject("amount", "cannot be combined with amount_minor; send one of them"),
        (Some(_), None) => return fields.minor("amount_minor"),
        (None, Some(_)) => return fields.decimal("amount", currency.unwrap_or(Currency::USD)),
        (None, None) => fields.reject("amount_minor", "is required, unless amount is sent"),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const LOAN: &str = "018f3c9e-0000-7000-8000-000000000001";

    #[test]
    fn omitted_fields_of_a_payload_have_defaults() {
        let payment = read(&json!({"txn_id": "t1", "loan_id": LOAN, "amount": "12.34"})).unwrap();
        assert_eq!((payment.amount, payment.currency), (Minor::new(1234), Currency::USD));
        assert_eq!((payment.method, payment.effective_date), (PaymentMethod::Other, None));
        let payment = read(&json!({
            "txn_id": "t1", "loan_id": LOAN, "amount_minor": "1234", "currency": "EUR", "method": "wire",
            "effective_date": "2026-01-31", "allocation_hints": {"bucket": "principal"}, "memo": "kept"
        }))
        .unwrap();
        assert_eq!(payment.currency, Currency::EUR);
        assert_eq!(payment.hints["bucket"], "principal");
        assert_eq!(payment.raw["memo"], "kept");
    }

    #[test]
    fn an_amount_must_be_sent_once_and_as_text() {
        let paths = |payload: Value| -> Vec<String> {
            read(&payload).unwrap_err().into_iter().map(|error| error.path).collect()
        };
        assert_eq!(paths(json!({"txn_id": "t", "loan_id": LOAN})), ["/amount_minor"]);
        assert_eq!(paths(json!({"txn_id": "t", "loan_id": LOAN, "amount": "1", "amount_minor": "100"})), ["/amount"]);
        for wrong in [json!(100), json!("1.5"), json!("0"), json!("-1"), json!("9223372036854775808"), json!(1.5)] {
            assert_eq!(paths(json!({"txn_id": "t", "loan_id": LOAN, "amount_minor": wrong})), ["/amount_minor"]);
        }
        assert_eq!(paths(json!([])), ["", "/txn_id", "/loan_id", "/amount_minor"]);
    }
}
