//! Allocations from suspense.

use crate::loans::Loan;
use crate::model::Allocation;
use jiff::civil::Date;
use onceward::{DbError, Row, Tx, db::ToSql};
use postgres_types::Json;
use uuid::Uuid;

const INSERT_ALLOCATION: &str = "
    INSERT INTO lending.suspense_allocation
        (tenant_id, allocation_id, version, loan_id, effective_date, event_id, applied, schedule_no, instalment)
    VALUES ($1, $2, $3, $4, $5, $6, $7, CASE WHEN $8::int IS NOT NULL THEN $9::int END, $8)
    ON CONFLICT DO NOTHING";
/// The allocations that an operator requested. Those on due dates follow from the schedule.
const ALLOCATIONS: &str = "
    SELECT DISTINCT ON (allocation_id) allocation_id, version, effective_date
    FROM lending.suspense_allocation
    WHERE loan_id = $1
      AND effective_date >= $2
      AND instalment IS NULL
    ORDER BY allocation_id, version DESC";
const DUE_ALLOCATION: &str = "
    SELECT allocation_id, version
    FROM lending.suspense_allocation
    WHERE loan_id = $1
      AND schedule_no = $2
      AND instalment = $3
    ORDER BY version DESC
    LIMIT 1";

/// An allocation to store; `event_id` is `None` if it took nothing.
pub(crate) struct NewAllocation<'a> {
    pub allocation_id: Uuid,
    pub version: i32,
    pub loan_id: Uuid,
    pub effective_date: Date,
    /// The instalment of the schedule in force whose due date it belongs to, unless an operator requested it.
    pub instalment: Option<u32>,
    pub event_id: Option<Uuid>,
    pub applied: &'a [Allocation],
}

/// Stores an allocation. Returns `false` if that version exists.
pub(crate) async fn insert_allocation(tx: &Tx, loan: &Loan, new: &NewAllocation<'_>) -> Result<bool, DbError> {
    let NewAllocation { allocation_id, version, loan_id, effective_date, instalment, event_id, applied } = new;
    let tenant = tx.tenant()?.as_str();
    let instalment = instalment.map(|number| i32::try_from(number).unwrap_or(i32::MAX));
    let applied = Json(applied);
    let params: [&(dyn ToSql + Sync); 9] =
        [&tenant, allocation_id, version, loan_id, effective_date, event_id, &applied, &instalment, &loan.schedule_no];
    Ok(tx.execute(INSERT_ALLOCATION, &params).await? == 1)
}

/// Returns the id and latest version of the allocation on the due date of an instalment of the schedule in force.
pub(crate) async fn find_due_allocation(tx: &Tx, loan: &Loan, instalment: u32) -> Result<Option<(Uuid, i32)>, DbError> {
    let number = i32::try_from(instalment).unwrap_or(i32::MAX);
    let row = tx.query_opt(DUE_ALLOCATION, &[&loan.loan_id, &loan.schedule_no, &number]).await?;
    Ok(row.map(|row| (row.get(0), row.get(1))))
}

/// An allocation from suspense that an operator requested, in its latest version.
#[derive(Debug, Clone)]
pub(crate) struct RequestedAllocation {
    pub allocation_id: Uuid,
    pub version: i32,
    pub effective_date: Date,
}

pub(crate) async fn find_allocations(tx: &Tx, loan_id: Uuid, from: Date) -> Result<Vec<RequestedAllocation>, DbError> {
    let rows = tx.query(ALLOCATIONS, &[&loan_id, &from]).await?;
    let read =
        |row: &Row| RequestedAllocation { allocation_id: row.get(0), version: row.get(1), effective_date: row.get(2) };
    Ok(rows.iter().map(read).collect())
}
