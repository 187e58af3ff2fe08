//! Loans.

use crate::{
    loans::Loan,
    model::{Calendar, LoanStatus, ProductPolicy},
};
use jiff::civil::Date;
use onceward::{DbError, Row, Tx};
use postgres_types::Json;
use uuid::Uuid;

macro_rules! select_loans {
    ($rest:literal) => {
        concat!(
            "SELECT loan_id, borrower_entity_id, product_code, product_version, policy, status, status_since, status_by, \
             principal_minor, currency, start_date, schedule_no, schedule_start, first_due_date, due_day, funded_on, \
             accrued_to, serviced_to, suspense_applied_to, received_before_minor, escrow_before_minor, \
             charge_off_event_id, version, created_at, \
             updated_at FROM lending.loan ",
            $rest
        )
    };
}

const FIND: &str = select_loans!("WHERE loan_id = $1");
// Weaker than FOR UPDATE: other transactions can still insert rows that refer to the loan.
const LOCK: &str = select_loans!("WHERE loan_id = $1 FOR NO KEY UPDATE");
// Locks in one order, so that transactions that lock several loans cannot deadlock.
const LOCK_ALL: &str = select_loans!("WHERE loan_id = ANY ($1) ORDER BY loan_id FOR NO KEY UPDATE");
const LIST: &str = select_loans!(
    "WHERE ($1::text IS NULL OR status = $1) AND ($2::uuid IS NULL OR borrower_entity_id = $2) \
     AND ($3::uuid IS NULL OR loan_id > $3) ORDER BY loan_id LIMIT $4"
);
// Loans locked by other transactions are skipped and tried again later: waiting here could deadlock.
const TAKE_UNSERVICED: &str = select_loans!(
    "WHERE serviced_to < $1 AND status IN ('active', 'in_modification', 'bankruptcy') \
     ORDER BY serviced_to, loan_id LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED"
);
const ANY_UNSERVICED: &str = "SELECT EXISTS (SELECT FROM lending.loan \
     WHERE serviced_to < $1 AND status IN ('active', 'in_modification', 'bankruptcy'))";
const INSERT: &str = "INSERT INTO lending.loan (tenant_id, loan_id, borrower_entity_id, product_code, product_version, \
     policy, principal_minor, currency, start_date, schedule_start, first_due_date, due_day, status_since, status_by) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT DO NOTHING \
     RETURNING created_at, updated_at";
const SAVE: &str = "UPDATE lending.loan SET status = $2, policy = $3, schedule_no = $4, schedule_start = $5, \
     first_due_date = $6, due_day = $7, funded_on = $8, accrued_to = $9, serviced_to = $10, received_before_minor = $11, \
     escrow_before_minor = $12, charge_off_event_id = $13, status_since = $14, status_by = $15, \
     suspense_applied_to = $16, version = version + 1, updated_at = now() \
     WHERE loan_id = $1 RETURNING version, updated_at";
const ACCRUED: &str = "UPDATE lending.loan l SET accrued_to = a.accrued_to \
     FROM unnest($1::uuid[], $2::date[]) AS a (loan_id, accrued_to) WHERE l.loan_id = a.loan_id";
const SUSPENSE_APPLIED: &str = "UPDATE lending.loan SET suspense_applied_to = $2 WHERE loan_id = ANY ($1)";
const SERVICED: &str = "UPDATE lending.loan SET serviced_to = $2 WHERE loan_id = ANY ($1)";

/// Returns the loan without a lock, for reading.
pub async fn find_loan(tx: &Tx, loan_id: Uuid) -> Result<Option<Loan>, DbError> {
    tx.query_opt(FIND, &[&loan_id]).await?.map(|row| read(&row)).transpose()
}

/// Returns the loan, locked until the transaction ends. Everything that changes it or posts to it starts with this.
pub async fn lock_loan(tx: &Tx, loan_id: Uuid) -> Result<Option<Loan>, DbError> {
    tx.query_opt(LOCK, &[&loan_id]).await?.map(|row| read(&row)).transpose()
}

/// Returns the loans that exist, locked in one order.
pub(crate) async fn lock_loans(tx: &Tx, loan_ids: &[Uuid]) -> Result<Vec<Loan>, DbError> {
    tx.query(LOCK_ALL, &[&loan_ids]).await?.iter().map(read).collect()
}

/// The filter of a listing.
#[derive(Debug, Default)]
pub(crate) struct LoanFilter {
    pub status: Option<LoanStatus>,
    pub borrower_entity_id: Option<Uuid>,
    pub after: Option<Uuid>,
}

pub(crate) async fn list_loans(tx: &Tx, filter: &LoanFilter, limit: i64) -> Result<Vec<Loan>, DbError> {
    let status = filter.status.map(LoanStatus::as_str);
    let rows = tx.query(LIST, &[&status, &filter.borrower_entity_id, &filter.after, &limit]).await?;
    rows.iter().map(read).collect()
}

/// Locks and returns up to `limit` loans that the daily run has not reached yet.
pub(crate) async fn lock_unserviced(tx: &Tx, day: Date, limit: i64) -> Result<Vec<Loan>, DbError> {
    tx.query(TAKE_UNSERVICED, &[&day, &limit]).await?.iter().map(read).collect()
}

pub(crate) async fn has_unserviced(tx: &Tx, day: Date) -> Result<bool, DbError> {
    Ok(tx.query_one(ANY_UNSERVICED, &[&day]).await?.get(0))
}

/// Inserts a new loan and sets its timestamps. Returns `false` if its id exists.
pub(crate) async fn insert_loan(tx: &Tx, loan: &mut Loan) -> Result<bool, DbError> {
    let row = tx
        .query_opt(
            INSERT,
            &[
                &tx.tenant()?.as_str(),
                &loan.loan_id,
                &loan.borrower_entity_id,
                &loan.product_code,
                &loan.product_version,
                &Json(&loan.policy),
                &loan.principal,
                &loan.currency,
                &loan.start_date,
                &loan.calendar.funded_on(),
                &loan.calendar.first_due(),
                &i16::from(loan.calendar.due_day()),
                &loan.status_since,
                &loan.status_by,
            ],
        )
        .await?;
    if let Some(row) = &row {
        (loan.created_at, loan.updated_at) = (row.get(0), row.get(1));
    }
    Ok(row.is_some())
}

/// Saves a changed loan as its next version.
pub(crate) async fn save_loan(tx: &Tx, loan: &mut Loan) -> Result<(), DbError> {
    let row = tx
        .query_one(
            SAVE,
            &[
                &loan.loan_id,
                &loan.status.as_str(),
                &Json(&loan.policy),
                &loan.schedule_no,
                &loan.calendar.funded_on(),
                &loan.calendar.first_due(),
                &i16::from(loan.calendar.due_day()),
                &loan.funded_on,
                &loan.accrued_to,
                &loan.serviced_to,
                &loan.received_before,
                &loan.escrow_before,
                &loan.charge_off_event_id,
                &loan.status_since,
                &loan.status_by,
                &loan.suspense_applied_to,
            ],
        )
        .await?;
    (loan.version, loan.updated_at) = (row.get(0), row.get(1));
    Ok(())
}

/// Sets the day up to which interest is booked. This is not a change of the loan: its version stays.
pub(crate) async fn set_accrued_to(tx: &Tx, loans: &[Uuid], days: &[Date]) -> Result<(), DbError> {
    tx.execute(ACCRUED, &[&loans, &days]).await.map(drop)
}

pub(crate) async fn set_serviced_to(tx: &Tx, loans: &[Uuid], day: Date) -> Result<(), DbError> {
    tx.execute(SERVICED, &[&loans, &day]).await.map(drop)
}

/// Sets the day up to which suspense has been applied to what fell due.
pub(crate) async fn set_suspense_applied_to(tx: &Tx, loans: &[Uuid], day: Date) -> Result<(), DbError> {
    tx.execute(SUSPENSE_APPLIED, &[&loans, &day]).await.map(drop)
}

fn read(row: &Row) -> Result<Loan, DbError> {
    let unreadable = |what: &str, error: &dyn std::fmt::Display| {
        DbError::Config(format!("a loan's {what} cannot be read, correct the row: {error}"))
    };
    let Json(policy): Json<ProductPolicy> = row.try_get("policy")?;
    let due_day = i8::try_from(row.get::<_, i16>("due_day")).map_err(|error| unreadable("due day", &error))?;
    let calendar = Calendar::with_due_day(row.get("schedule_start"), row.get("first_due_date"), due_day)
        .map_err(|error| unreadable("calendar", &error))?;
    let status: LoanStatus = row.get::<_, &str>("status").parse().map_err(|error| unreadable("status", &error))?;
    Ok(Loan {
        loan_id: row.get("loan_id"),
        borrower_entity_id: row.get("borrower_entity_id"),
        product_code: row.get("product_code"),
        product_version: row.get("product_version"),
        policy,
        status,
        status_since: row.get::<_, Option<Date>>("status_since").unwrap_or_else(|| row.get("start_date")),
        status_by: row.get("status_by"),
        principal: row.get("principal_minor"),
        currency: row.try_get("currency")?,
        start_date: row.get("start_date"),
        calendar,
        schedule_no: row.get("schedule_no"),
        funded_on: row.get("funded_on"),
        accrued_to: row.get("accrued_to"),
        serviced_to: row.get("serviced_to"),
        suspense_applied_to: row.get("suspense_applied_to"),
        received_before: row.get("received_before_minor"),
        escrow_before: row.get("escrow_before_minor"),
        charge_off_event_id: row.get("charge_off_event_id"),
        version: row.get("version"),
        created_at: row.get("created_at"),
        updated_at: row.get("updated_at"),
    })
}
