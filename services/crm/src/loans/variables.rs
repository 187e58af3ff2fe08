//! The variables of a mail that come from facts: one pure function, without defaults of its own.

use super::LoanSnapshot;
use serde_json::{Map, Value, json};

/// What a template may say about a contact.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContactFacts {
    pub display_name: String,
    pub given_name: Option<String>,
    pub family_name: Option<String>,
}

/// Returns the variables that the facts about a loan and a contact determine, as nested objects: `contact.first_name`,
/// `loan.principal_balance`. A fact that is not known is absent, so that the template's default or the caller's value is
/// used, or the request is rejected.
pub(crate) fn resolve_email_variables(
    loan: Option<(&str, &LoanSnapshot)>,
    contact: Option<&ContactFacts>,
) -> Map<String, Value> {
    let mut variables = Map::new();
    if let Some(contact) = contact {
        let first_name = contact.given_name.as_deref().unwrap_or(&contact.display_name);
        let members = [
            ("name", Some(json!(contact.display_name))),
            ("first_name", Some(json!(first_name))),
            ("last_name", contact.family_name.as_ref().map(|name| json!(name))),
        ];
        variables.insert("contact".to_owned(), object(members));
    }
    if let Some((loan_id, snapshot)) = loan {
        variables.insert("loan".to_owned(), loan_members(loan_id, snapshot));
        if snapshot.last_payment.is_object() {
            variables.insert("payment".to_owned(), payment_members(snapshot));
        }
    }
    variables
}

fn loan_members(loan_id: &str, snapshot: &LoanSnapshot) -> Value {
    let text = |name: &str| snapshot.loan[name].as_str().map(|text| json!(text));
    let balance = |name: &str| money(&snapshot.balances[name], snapshot);
    object([
        ("id", Some(json!(loan_id))),
        ("number", Some(json!(loan_id))),
        ("status", text("status")),
        ("currency", text("currency")),
        ("start_date", text("start_date")),
        ("first_due_date", text("first_due_date")),
        ("original_principal", money(&snapshot.loan["principal_minor"], snapshot)),
        ("principal_balance", balance("principal_minor")),
        ("interest_balance", balance("interest_receivable_minor")),
        ("fees_balance", balance("fees_receivable_minor")),
        ("escrow_balance", balance("escrow_liability_minor")),
    ])
}

fn payment_members(snapshot: &LoanSnapshot) -> Value {
    let payment = &snapshot.last_payment;
    object([
        ("amount", money(&payment["amount_minor"], snapshot)),
        ("date", payment["effective_date"].as_str().map(|date| json!(date))),
        ("reference", payment["payment_id"].as_str().map(|id| json!(id))),
    ])
}

fn money(amount_minor: &Value, snapshot: &LoanSnapshot) -> Option<Value> {
    let (amount, currency) = (amount_minor.as_str()?, snapshot.loan["currency"].as_str()?);
    Some(json!({ "amountMinor": amount, "currency": currency }))
}

fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_become_variables_and_unknown_facts_are_absent() {
        let snapshot = LoanSnapshot {
            loan: json!({ "currency": "USD", "status": "active", "principal_minor": "1000000" }),
            balances: json!({ "principal_minor": "987654" }),
            last_payment: json!({ "payment_id": "p-1", "effective_date": "2026-11-01", "amount_minor": "12346" }),
        };
        let contact = ContactFacts { display_name: "Ada Lovelace".to_owned(), ..ContactFacts::default() };
        let variables = resolve_email_variables(Some(("l-1", &snapshot)), Some(&contact));
        assert_eq!(variables["contact"], json!({ "name": "Ada Lovelace", "first_name": "Ada Lovelace" }));
        assert_eq!(variables["loan"]["principal_balance"], json!({ "amountMinor": "987654", "currency": "USD" }));
        assert_eq!(variables["loan"].get("fees_balance"), None);
        assert_eq!(variables["payment"]["amount"], json!({ "amountMinor": "12346", "currency": "USD" }));
        assert_eq!(resolve_email_variables(None, None), Map::new());
    }

    #[test]
    fn a_balance_without_a_currency_is_absent() {
        let snapshot = LoanSnapshot { balances: json!({ "principal_minor": "1" }), ..LoanSnapshot::default() };
        assert_eq!(resolve_email_variables(Some(("l-1", &snapshot)), None)["loan"].get("principal_balance"), None);
    }
}
