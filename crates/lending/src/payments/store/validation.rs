//! What the validator knows and decides.

use crate::payments::rules::LoanFacts;
use jiff::{Timestamp, civil::Date};
use onceward::{DbError, Tx};
use onceward_money::{Currency, Minor};
use postgres_types::Json;
use serde_json::{Map, Value};
use uuid::Uuid;

const LOAD: &str = "
    SELECT i.loan_id, i.amount_minor, i.currency, i.received_at, i.allocation_hints,
        l.status, l.currency AS loan_currency,
        CASE WHEN l.loan_id IS NOT NULL THEN lending.borrower_eligible(l.borrower_entity_id) END AS eligible,
        v.is_valid, v.effective_date AS validated_for
    FROM lending.payment_intake i
    LEFT JOIN lending.loan l ON l.tenant_id = i.tenant_id AND l.loan_id = i.loan_id
    LEFT JOIN lending.payment_validation v ON v.tenant_id = i.tenant_id AND v.payment_id = i.payment_id
    WHERE i.payment_id = $1";
const SAVE: &str = "
    INSERT INTO lending.payment_validation AS v
        (tenant_id, payment_id, is_valid, reason, allocation_hints, effective_date)
    VALUES ($1, $2, $3::text IS NULL, $3, $4, $5)
    ON CONFLICT (tenant_id, payment_id) DO UPDATE SET
        is_valid = excluded.is_valid, reason = excluded.reason, allocation_hints = excluded.allocation_hints,
        effective_date = CASE WHEN excluded.is_valid THEN excluded.effective_date ELSE v.effective_date END,
        validated_at = now()";

/// What was taken in, its loan, and what was decided before.
pub(crate) struct Validation {
    pub loan_id: Uuid,
    pub amount: Minor,
    pub currency: Currency,
    pub received_at: Timestamp,
    pub hints: Map<String, Value>,
    pub loan: Option<LoanFacts>,
    /// Whether it was found good, and for which day.
    pub decided: Option<(bool, Date)>,
}

pub(crate) async fn load_validation(tx: &Tx, payment_id: Uuid) -> Result<Option<Validation>, DbError> {
    let Some(row) = tx.query_opt(LOAD, &[&payment_id]).await? else {
        return Ok(None);
    };
    let Json(hints) = row.try_get("allocation_hints")?;
    let loan = match row.get::<_, Option<&str>>("status") {
        None => None,
        Some(status) => Some(LoanFacts {
            status: status.parse().map_err(|_| DbError::Config(format!("a loan has the status {status}")))?,
            currency: row.try_get("loan_currency")?,
            borrower_eligible: row.get("eligible"),
        }),
    };
    Ok(Some(Validation {
        loan_id: row.get("loan_id"),
        amount: row.get("amount_minor"),
        currency: row.try_get("currency")?,
        received_at: row.get("received_at"),
        hints,
        loan,
        decided: row.get::<_, Option<bool>>("is_valid").zip(row.get("validated_for")),
    }))
}

/// Without a reason, it is good. A payment that fails keeps the day for which it was once found good.
pub(crate) async fn save_validation(
    tx: &Tx,
    payment_id: Uuid,
    reason: Option<&str>,
    hints: &Map<String, Value>,
    effective_date: Date,
) -> Result<(), DbError> {
    let tenant = tx.tenant()?.as_str();
    tx.execute(SAVE, &[&tenant, &payment_id, &reason, &Json(hints), &effective_date]).await.map(drop)
}
