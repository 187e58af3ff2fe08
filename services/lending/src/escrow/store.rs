//! All SQL of escrow. Row-level security adds the tenant to every condition.

use super::{Disbursement, DisbursementRequest, DisbursementStatus, Payee, Purpose, events::EscrowDisburse};
use crate::loans::Loan;
use jiff::civil::Date;
use onceward::{DbError, Row, Tx, db::ToSql};
use onceward_money::{Currency, Minor};
use uuid::Uuid;

macro_rules! select_disbursements {
    ($rest:literal) => {
        concat!(
            "SELECT disbursement_id, loan_id, payee_name, payee_reference, amount_minor, currency, purpose, \
             effective_date, due_date, status, reason, event_id, requested_at, settled_at \
             FROM lending.escrow_disbursement ",
            $rest
        )
    };
}

const FIND: &str = select_disbursements!("WHERE disbursement_id = $1");
const LIST: &str = select_disbursements!(
    "WHERE loan_id = $1 AND ($2::uuid IS NULL OR disbursement_id < $2) ORDER BY disbursement_id DESC LIMIT $3"
);
const INSERT: &str = "INSERT INTO lending.escrow_disbursement (tenant_id, disbursement_id, loan_id, payee_name, \
     payee_reference, amount_minor, currency, purpose, effective_date, due_date) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING";
const SETTLE: &str = "UPDATE lending.escrow_disbursement SET status = $2, reason = $3, event_id = $4, settled_at = now() \
     WHERE disbursement_id = $1 AND status = 'requested' RETURNING settled_at";
const CHANGES_AFTER: &str = "SELECT sum(n.credit_minor - n.debit_minor)::bigint FROM ledger.ledger_event e \
     JOIN ledger.ledger_entry n ON n.tenant_id = e.tenant_id AND n.event_id = e.event_id \
     WHERE e.loan_id = $1 AND e.effective_date > $3 AND e.finalized_at IS NOT NULL \
       AND n.account = 'escrow_liability' AND n.currency = $2 \
     GROUP BY e.effective_date ORDER BY e.effective_date";

/// Inserts the requested disbursement, unless it exists.
pub(super) async fn insert(tx: &Tx, loan: &Loan, command: &EscrowDisburse) -> Result<(), DbError> {
    let DisbursementRequest { payee, amount_minor, purpose, effective_date, due_date } = &command.disbursement;
    let (tenant, purpose) = (tx.tenant()?.as_str(), purpose.as_str());
    let params: [&(dyn ToSql + Sync); 10] = [
        &tenant,
        &command.disbursement_id,
        &loan.loan_id,
        &payee.name,
        &payee.reference,
        amount_minor,
        &loan.currency,
        &purpose,
        effective_date,
        due_date,
    ];
    tx.execute(INSERT, &params).await.map(drop)
}

pub(super) async fn find(tx: &Tx, disbursement_id: Uuid) -> Result<Option<Disbursement>, DbError> {
    tx.query_opt(FIND, &[&disbursement_id]).await?.as_ref().map(read).transpose()
}

/// Lists a loan's disbursements, the latest first, starting after `after`.
pub(super) async fn list(
    tx: &Tx,
    loan_id: Uuid,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Disbursement>, DbError> {
    tx.query(LIST, &[&loan_id, &after, &limit]).await?.iter().map(read).collect()
}

/// Writes status, reason and event of a disbursement that was only requested so far.
pub(super) async fn settle(tx: &Tx, disbursement: &mut Disbursement) -> Result<(), DbError> {
    let Disbursement { disbursement_id, status, reason, event_id, .. } = &*disbursement;
    let row = tx.query_one(SETTLE, &[disbursement_id, &status.as_str(), reason, event_id]).await?;
    disbursement.settled_at = Some(row.get(0));
    Ok(())
}

/// Returns the change of the escrow balance on each day after `day` on which it changed, in the order of days.
pub(super) async fn changes_after(
    tx: &Tx,
    loan_id: Uuid,
    currency: Currency,
    day: Date,
) -> Result<Vec<Minor>, DbError> {
    let rows = tx.query(CHANGES_AFTER, &[&loan_id, &currency, &day]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

fn read(row: &Row) -> Result<Disbursement, DbError> {
    let unreadable = |what: &str| DbError::Config(format!("a disbursement's {what} is invalid; correct the row"));
    Ok(Disbursement {
        disbursement_id: row.get("disbursement_id"),
        loan_id: row.get("loan_id"),
        request: DisbursementRequest {
            payee: Payee { name: row.get("payee_name"), reference: row.get("payee_reference") },
            amount_minor: row.get("amount_minor"),
            purpose: Purpose::parse(row.get("purpose")).ok_or_else(|| unreadable("purpose"))?,
            effective_date: row.get("effective_date"),
            due_date: row.get("due_date"),
        },
        currency: row.try_get("currency")?,
        status: DisbursementStatus::parse(row.get("status")).ok_or_else(|| unreadable("status"))?,
        reason: row.get("reason"),
        event_id: row.get("event_id"),
        requested_at: row.get("requested_at"),
        settled_at: row.get("settled_at"),
    })
}
