//! Schedules, and the late fees that were charged under them.

use crate::{
    loans::Loan,
    model::{Instalment, RepaymentSchedule},
};
use onceward::{DbError, Row, TenantId, Tx};
use onceward_money::Minor;
use quick_cache::sync::Cache;
use std::sync::Arc;
use uuid::Uuid;

const FIND: &str = "SELECT number, due_date, payment_minor, interest_minor, principal_minor, escrow_minor, \
     balance_after_minor FROM lending.instalment WHERE loan_id = $1 AND schedule_no = $2 ORDER BY number";
const DELETE: &str = "DELETE FROM lending.instalment WHERE loan_id = $1 AND schedule_no = $2";
const INSERT: &str = "INSERT INTO lending.instalment (tenant_id, loan_id, schedule_no, number, due_date, payment_minor, \
     interest_minor, principal_minor, escrow_minor, balance_after_minor) \
     SELECT $1, $2, $3, r.* FROM unnest($4::int[], $5::date[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], \
     $10::bigint[]) AS r";
const LATE_FEES: &str = "SELECT number, late_fee_event_id, late_fees FROM lending.instalment \
     WHERE loan_id = $1 AND schedule_no = $2 AND late_fees > 0 ORDER BY number";
const MARK_LATE_FEE: &str = "UPDATE lending.instalment SET late_fee_event_id = $4, \
     late_fees = late_fees + ($4::uuid IS NOT NULL)::int WHERE loan_id = $1 AND schedule_no = $2 AND number = $3";

/// Returns the schedule with this number; without rows if it does not exist. The schedule in force has the loan's
/// `schedule_no`.
pub async fn find_schedule(tx: &Tx, loan_id: Uuid, schedule_no: i32) -> Result<RepaymentSchedule, DbError> {
    let rows: Vec<Instalment> = tx.query(FIND, &[&loan_id, &schedule_no]).await?.iter().map(read).collect();
    // Every row except the last pays the regular instalment.
    let instalment = rows.first().map_or(Minor::ZERO, |row| row.payment);
    Ok(RepaymentSchedule { instalment, rows })
}

/// The most schedules that the consumers of a process cache. Schedules are small; the number of loans is large.
const CAPACITY: usize = 4_096;

/// Caches schedules by tenant, loan and number. The schedule of a number never changes: a modification creates the next
/// number.
pub(crate) struct ScheduleCache(Cache<(TenantId, Uuid, i32), Arc<RepaymentSchedule>>);

impl ScheduleCache {
    /// Creates the cache of a process.
    pub(crate) fn new() -> Self {
        Self::with_capacity(CAPACITY)
    }

    /// Creates a cache for work on this many loans.
    pub(crate) fn with_capacity(loans: usize) -> Self {
        Self(Cache::new(loans))
    }

    /// Returns the schedule in force of `loan`, which must be locked.
    pub(crate) async fn schedule_of(&self, tx: &Tx, loan: &Loan) -> Result<Arc<RepaymentSchedule>, DbError> {
        let key = (tx.tenant()?.clone(), loan.loan_id, loan.schedule_no);
        if let Some(schedule) = self.0.get(&key) {
            return Ok(schedule);
        }
        let schedule = Arc::new(find_schedule(tx, loan.loan_id, loan.schedule_no).await?);
        self.0.insert(key, schedule.clone());
        Ok(schedule)
    }
}

/// Writes the schedule with this number. An existing one with the same number is replaced, which is meant for a loan
/// that is not funded yet; schedules with other numbers stay.
pub(crate) async fn write_schedule(
    tx: &Tx,
    loan_id: Uuid,
    schedule_no: i32,
    schedule: &RepaymentSchedule,
) -> Result<(), DbError> {
    tx.execute(DELETE, &[&loan_id, &schedule_no]).await?;
    let rows = &schedule.rows;
    let numbers: Vec<i32> = rows.iter().map(|row| i32::try_from(row.number).unwrap_or(i32::MAX)).collect();
    let dates: Vec<_> = rows.iter().map(|row| row.due_date).collect();
    let column = |of: fn(&Instalment) -> Minor| rows.iter().map(of).collect::<Vec<Minor>>();
    tx.execute(
        INSERT,
        &[
            &tx.tenant()?.as_str(),
            &loan_id,
            &schedule_no,
            &numbers,
            &dates,
            &column(|row| row.payment),
            &column(|row| row.interest),
            &column(|row| row.principal),
            &column(|row| row.escrow),
            &column(|row| row.balance_after),
        ],
    )
    .await
    .map(drop)
}

/// An instalment for which a late fee was charged.
pub(crate) struct ChargedLateFee {
    pub number: u32,
    /// The fee's posting, unless it was reversed.
    pub event_id: Option<Uuid>,
    /// The number of times a fee was charged.
    pub times: i32,
}

/// Returns the late fees of the schedule in force.
pub(crate) async fn late_fees(tx: &Tx, loan: &Loan) -> Result<Vec<ChargedLateFee>, DbError> {
    let rows = tx.query(LATE_FEES, &[&loan.loan_id, &loan.schedule_no]).await?;
    Ok(rows.iter().map(|row| ChargedLateFee { number: number(row), event_id: row.get(1), times: row.get(2) }).collect())
}

/// Records the posting of an instalment's late fee, or its reversal.
pub(crate) async fn mark_late_fee(
    tx: &Tx,
    loan: &Loan,
    instalment: u32,
    event_id: Option<Uuid>,
) -> Result<(), DbError> {
    let number = i32::try_from(instalment).unwrap_or(i32::MAX);
    tx.execute(MARK_LATE_FEE, &[&loan.loan_id, &loan.schedule_no, &number, &event_id]).await.map(drop)
}

fn number(row: &Row) -> u32 {
    u32::try_from(row.get::<_, i32>(0)).unwrap_or(0)
}

fn read(row: &Row) -> Instalment {
    Instalment {
        number: number(row),
        due_date: row.get(1),
        payment: row.get(2),
        interest: row.get(3),
        principal: row.get(4),
        escrow: row.get(5),
        balance_after: row.get(6),
    }
}
