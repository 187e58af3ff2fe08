//! Consumes what lending publishes about loans and payments, and stores the latest facts.

use super::store::{LoanFacts, save};
use crate::topology::LOAN_FACTS_QUEUE;
use onceward::{AnyHandler, Consumer, Envelope, Failure, Tx};
use serde_json::{Value, json};

pub(crate) fn consumer() -> Consumer {
    Consumer::transactional("crm-loan-facts", LOAN_FACTS_QUEUE).on_any(LoanFactsHandler).into()
}

struct LoanFactsHandler;

impl AnyHandler for LoanFactsHandler {
    async fn handle_all(&self, tx: &mut Tx, batch: &[&Envelope]) -> Result<(), Failure> {
        for envelope in batch {
            let payload = envelope.payload.value();
            if let Some(facts) = facts(envelope, payload) {
                save(tx, &facts).await?;
            }
        }
        Ok(())
    }
}

/// Returns the facts of a message, or `None` for a type that says nothing about balances.
fn facts<'e>(envelope: &Envelope, payload: &'e Value) -> Option<LoanFacts<'e>> {
    let is_loan = payload["loan"].is_object();
    let loan_id = if is_loan { payload["loan"]["loan_id"].as_str() } else { payload["loan_id"].as_str() };
    let balances = if is_loan { &payload["loan"]["balances"] } else { &payload["new_balances"] };
    Some(LoanFacts {
        loan_id: loan_id?,
        loan: is_loan.then_some(&payload["loan"]),
        balances: balances.is_object().then_some(balances),
        last_payment: payment(envelope, payload),
        event_id: envelope.event_id,
        occurred_at: envelope.occurred_at,
    })
}

/// Returns a posted payment with the amount that was applied: the sum that lending reports by bucket.
fn payment(envelope: &Envelope, payload: &Value) -> Option<Value> {
    if envelope.event_type.name() != "payment.posted" {
        return None;
    }
    let applied = payload["applied"].as_array()?;
    let amounts = applied.iter().map(|part| part["amount_minor"].as_str()?.parse::<i64>().ok());
    let total = amounts.sum::<Option<i64>>()?;
    Some(json!({
        "payment_id": payload["payment_id"],
        "effective_date": payload["effective_date"],
        "amount_minor": total.to_string(),
    }))
}
