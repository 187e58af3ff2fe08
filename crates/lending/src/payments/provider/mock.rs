//! The mock gateway: our own words, in JSON.
//!
//! `txn_id`, `loan_id`, and either `amount_minor` ("12345") or `amount` ("123.45") are required; `currency`, `method`,
//! `effective_date` and `allocation_hints` may be there. Whatever else there is is kept and not read.

use super::{Claim, Fields, MOCK, Wrong};
use crate::payments::events::PaymentMethod;
use onceward_money::{Currency, Minor};
use serde_json::Value;

pub(crate) fn read(payload: &Value) -> Result<Claim, Vec<Wrong>> {
    let mut fields = Fields::of(payload);
    let gateway_txn_id = fields.transaction("txn_id");
    let loan_id = fields.loan("loan_id");
    let currency = fields.currency("currency");
    let amount = amount(&mut fields, currency);
    let method = fields.method("method", PaymentMethod::Other);
    let effective_date = fields.day("effective_date");
    let hints = fields.hints("allocation_hints");
    let claim = || {
        Some(Claim {
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
    let claim = claim();
    fields.finish(claim)
}

fn amount(fields: &mut Fields<'_>, currency: Option<Currency>) -> Option<Minor> {
    match (fields.get("amount_minor"), fields.get("amount")) {
        (Some(_), Some(_)) => fields.refuse("amount", "is there beside amount_minor: send one of them"),
        (Some(_), None) => return fields.minor("amount_minor"),
        (None, Some(_)) => return fields.decimal("amount", currency.unwrap_or(Currency::USD)),
        (None, None) => fields.refuse("amount_minor", "is required, or amount"),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const LOAN: &str = "018f3c9e-0000-7000-8000-000000000001";

    #[test]
    fn a_payload_is_read_with_its_defaults() {
        let claim = read(&json!({"txn_id": "t1", "loan_id": LOAN, "amount": "12.34"})).unwrap();
        assert_eq!((claim.amount, claim.currency), (Minor::new(1234), Currency::USD));
        assert_eq!((claim.method, claim.effective_date), (PaymentMethod::Other, None));
        let claim = read(&json!({
            "txn_id": "t1", "loan_id": LOAN, "amount_minor": "1234", "currency": "EUR", "method": "wire",
            "effective_date": "2026-01-31", "allocation_hints": {"bucket": "principal"}, "memo": "kept"
        }))
        .unwrap();
        assert_eq!(claim.currency, Currency::EUR);
        assert_eq!(claim.hints["bucket"], "principal");
        assert_eq!(claim.raw["memo"], "kept");
    }

    #[test]
    fn an_amount_is_said_once_and_as_text() {
        let paths = |payload: Value| -> Vec<String> {
            read(&payload).unwrap_err().into_iter().map(|wrong| wrong.path).collect()
        };
        assert_eq!(paths(json!({"txn_id": "t", "loan_id": LOAN})), ["/amount_minor"]);
        assert_eq!(paths(json!({"txn_id": "t", "loan_id": LOAN, "amount": "1", "amount_minor": "100"})), ["/amount"]);
        for wrong in [json!(100), json!("1.5"), json!("0"), json!("-1"), json!("9223372036854775808"), json!(1.5)] {
            assert_eq!(paths(json!({"txn_id": "t", "loan_id": LOAN, "amount_minor": wrong})), ["/amount_minor"]);
        }
        assert_eq!(paths(json!([])), ["", "/txn_id", "/loan_id", "/amount_minor"]);
    }
}
