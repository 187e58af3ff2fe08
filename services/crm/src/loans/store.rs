//! The latest facts about a loan, as lending published them.

use jiff::Timestamp;
use onceward::{DbError, Tx};
use serde_json::Value;
use uuid::Uuid;

const FIND: &str = "SELECT loan, balances, last_payment FROM crm.loan_snapshot WHERE loan_id = $1";
/// Messages about one loan come in order; one that is repeated or late changes nothing.
const SAVE: &str = "INSERT INTO crm.loan_snapshot
        (tenant_id, loan_id, loan, balances, last_payment, event_id, occurred_at)
    VALUES ($1, $2, coalesce($3::jsonb, '{}'), coalesce($4::jsonb, '{}'), $5::jsonb, $6, $7)
    ON CONFLICT (loan_id, tenant_id) DO UPDATE
    SET loan = coalesce($3::jsonb, loan_snapshot.loan), balances = coalesce($4::jsonb, loan_snapshot.balances),
        last_payment = coalesce($5::jsonb, loan_snapshot.last_payment), event_id = $6, occurred_at = $7
    WHERE loan_snapshot.occurred_at <= $7";

/// The facts about a loan.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoanSnapshot {
    /// The loan, in lending's own form.
    pub loan: Value,
    /// The balances after the latest payment.
    pub balances: Value,
    /// The latest payment.
    pub last_payment: Value,
}

/// A message's share of a snapshot; what is `None` stays as it was.
pub(super) struct LoanFacts<'f> {
    pub loan_id: &'f str,
    pub loan: Option<&'f Value>,
    pub balances: Option<&'f Value>,
    pub last_payment: Option<Value>,
    pub event_id: Uuid,
    pub occurred_at: Timestamp,
}

impl LoanSnapshot {
    /// Returns the snapshot of a loan, or `None` if lending has not published anything about it.
    pub(crate) async fn find(tx: &Tx, loan_id: &str) -> Result<Option<Self>, DbError> {
        let row = tx.query_opt(FIND, &[&loan_id]).await?;
        Ok(row.map(|row| Self {
            loan: row.get(0),
            balances: row.get(1),
            last_payment: row.get::<_, Option<Value>>(2).unwrap_or_default(),
        }))
    }
}

pub(super) async fn save(tx: &Tx, facts: &LoanFacts<'_>) -> Result<(), DbError> {
    let LoanFacts { loan_id, loan, balances, last_payment, event_id, occurred_at } = facts;
    tx.execute(SAVE, &[&tx.tenant()?.as_str(), loan_id, loan, balances, last_payment, event_id, occurred_at]).await?;
    Ok(())
}
