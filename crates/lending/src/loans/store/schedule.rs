//! The schedule in force, and the late fees that were charged by it.

use crate::model::{Instalment, Schedule};
use onceward::{DbError, Row, Tx};
use onceward_money::Minor;
use uuid::Uuid;

const FIND: &str = "SELECT number, due_date, payment_minor, interest_minor, principal_minor, escrow_minor, \
     balance_after_minor FROM lending.instalment WHERE loan_id = $1 ORDER BY number";
const DELETE: &str = "DELETE FROM lending.instalment WHERE loan_id = $1";
const INSERT: &str = "INSERT INTO lending.instalment (tenant_id, loan_id, number, due_date, payment_minor, \
     interest_minor, principal_minor, escrow_minor, balance_after_minor) \
     SELECT $1, $2, r.* FROM unnest($3::int[], $4::date[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], \
     $9::bigint[]) AS r";
const LATE_FEES: &str = "SELECT number, late_fee_event_id, late_fees FROM lending.instalment \
     WHERE loan_id = $1 AND late_fees > 0 ORDER BY number";
const MARK_LATE_FEE: &str = "UPDATE lending.instalment SET late_fee_event_id = $3, \
     late_fees = late_fees + ($3::uuid IS NOT NULL)::int WHERE loan_id = $1 AND number = $2";

/// The schedule in force. A loan that was made has one.
pub async fn find_schedule(tx: &Tx, loan_id: Uuid) -> Result<Schedule, DbError> {
    let rows: Vec<Instalment> = tx.query(FIND, &[&loan_id]).await?.iter().map(read).collect();
    // Every row but the last pays the regular instalment.
    let instalment = rows.first().map_or(Minor::ZERO, |row| row.payment);
    Ok(Schedule { instalment, rows })
}

/// Puts `schedule` in force.
pub(crate) async fn replace_schedule(tx: &Tx, loan_id: Uuid, schedule: &Schedule) -> Result<(), DbError> {
    tx.execute(DELETE, &[&loan_id]).await?;
    let rows = &schedule.rows;
    let numbers: Vec<i32> = rows.iter().map(|row| i32::try_from(row.number).unwrap_or(i32::MAX)).collect();
    let dates: Vec<_> = rows.iter().map(|row| row.due_date).collect();
    let column = |of: fn(&Instalment) -> Minor| rows.iter().map(of).collect::<Vec<Minor>>();
    tx.execute(
        INSERT,
        &[
            &tx.tenant()?.as_str(),
            &loan_id,
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

/// An instalment that has had a late fee.
pub(crate) struct Charged {
    pub number: u32,
    /// The fee's posting, unless it was taken back.
    pub event_id: Option<Uuid>,
    /// How often a fee was charged.
    pub times: i32,
}

pub(crate) async fn late_fees(tx: &Tx, loan_id: Uuid) -> Result<Vec<Charged>, DbError> {
    let rows = tx.query(LATE_FEES, &[&loan_id]).await?;
    Ok(rows.iter().map(|row| Charged { number: number(row), event_id: row.get(1), times: row.get(2) }).collect())
}

/// Notes the posting of an instalment's late fee, or that it was taken back.
pub(crate) async fn mark_late_fee(
    tx: &Tx,
    loan_id: Uuid,
    instalment: u32,
    event_id: Option<Uuid>,
) -> Result<(), DbError> {
    let number = i32::try_from(instalment).unwrap_or(i32::MAX);
    tx.execute(MARK_LATE_FEE, &[&loan_id, &number, &event_id]).await.map(drop)
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
