//! The data and decisions of the validator.

use crate::payments::rules::LoanToPay;
use jiff::{Timestamp, civil::Date};
use onceward::{DbError, Row, Tx};
use onceward_money::{Currency, Minor};
use postgres_types::Json;
use serde_json::{Map, Value};
use std::collections::HashMap;
use uuid::Uuid;

const LOAD: &str = "
    SELECT i.payment_id, i.loan_id, i.amount_minor, i.currency, i.received_at, i.allocation_hints,
        l.status, l.currency AS loan_currency,
        CASE WHEN l.loan_id IS NOT NULL THEN lending.borrower_eligible(l.borrower_entity_id) END AS eligible,
        v.is_valid, v.effective_date AS validated_for, p.event_id IS NOT NULL AS posted
    FROM lending.payment_intake i
    LEFT JOIN lending.loan l ON l.tenant_id = i.tenant_id AND l.loan_id = i.loan_id
    LEFT JOIN lending.payment_validation v ON v.tenant_id = i.tenant_id AND v.payment_id = i.payment_id
    LEFT JOIN lending.payment_posting p ON p.tenant_id = i.tenant_id AND p.payment_id = i.payment_id
    WHERE i.payment_id = ANY ($1)";
const SAVE: &str = "
    INSERT INTO lending.payment_validation AS v
        (tenant_id, payment_id, is_valid, reason, allocation_hints, effective_date)
    SELECT $1, n.payment_id, n.reason IS NULL, n.reason, n.hints, n.effective_date
    FROM unnest($2::uuid[], $3::text[], $4::jsonb[], $5::date[]) AS n (payment_id, reason, hints, effective_date)
    ON CONFLICT (payment_id, tenant_id) DO UPDATE SET
        is_valid = excluded.is_valid, reason = excluded.reason, allocation_hints = excluded.allocation_hints,
        effective_date = CASE WHEN excluded.is_valid THEN excluded.effective_date ELSE v.effective_date END,
        validated_at = now()";

/// An accepted payment, its loan, and the earlier decision.
pub(crate) struct PaymentToValidate {
    pub loan_id: Uuid,
    pub amount: Minor,
    pub currency: Currency,
    pub received_at: Timestamp,
    pub hints: Map<String, Value>,
    pub loan: Option<LoanToPay>,
    /// Whether it passed validation, and for which day.
    pub decided: Option<(bool, Date)>,
    /// Whether its money is in the ledger.
    pub posted: bool,
}

/// Returns the data of each of `payments`.
pub(crate) async fn load_validations(tx: &Tx, payments: &[Uuid]) -> Result<HashMap<Uuid, PaymentToValidate>, DbError> {
    tx.query(LOAD, &[&payments]).await?.iter().map(|row| Ok((row.get("payment_id"), read(row)?))).collect()
}

fn read(row: &Row) -> Result<PaymentToValidate, DbError> {
    let Json(hints) = row.try_get("allocation_hints")?;
    let loan = match row.get::<_, Option<&str>>("status") {
        None => None,
        Some(status) => Some(LoanToPay {
            status: status
                .parse()
                .map_err(|_| DbError::Config(format!("a loan has the unknown status {status:?}; correct the row")))?,
            currency: row.try_get("loan_currency")?,
            borrower_eligible: row.get("eligible"),
        }),
    };
    Ok(PaymentToValidate {
        loan_id: row.get("loan_id"),
        amount: row.get("amount_minor"),
        currency: row.try_get("currency")?,
        received_at: row.get("received_at"),
        hints,
        loan,
        decided: row.get::<_, Option<bool>>("is_valid").zip(row.get("validated_for")),
        posted: row.get("posted"),
    })
}

/// The decision on a payment. Without a reason, it is valid.
pub(crate) struct ValidationDecision<'d> {
    pub payment_id: Uuid,
    pub reason: Option<&'d str>,
    pub hints: &'d Map<String, Value>,
    pub effective_date: Date,
}

/// Saves the decisions; each payment may occur once. A payment that fails keeps the day for which it once passed
/// validation.
pub(crate) async fn save_validations(tx: &Tx, decisions: &[ValidationDecision<'_>]) -> Result<(), DbError> {
    let tenant = tx.tenant()?.as_str();
    let payments: Vec<Uuid> = decisions.iter().map(|decision| decision.payment_id).collect();
    let reasons: Vec<Option<&str>> = decisions.iter().map(|decision| decision.reason).collect();
    let hints: Vec<Json<&Map<String, Value>>> = decisions.iter().map(|decision| Json(decision.hints)).collect();
    let days: Vec<Date> = decisions.iter().map(|decision| decision.effective_date).collect();
    tx.execute(SAVE, &[&tenant, &payments, &reasons, &hints, &days]).await.map(drop)
}
