//! Replays, and the ledger events that they reverse and post again.

use jiff::civil::Date;
use onceward::{DbError, Row, Tx};
use onceward_ledger::Account;
use onceward_money::Minor;
use uuid::Uuid;

/// Oldest first. Reversed events and reversals are not in force.
const IN_FORCE: &str = "
    SELECT e.event_id, e.schema, e.correlation_id, e.effective_date
    FROM ledger.ledger_event e
    WHERE e.loan_id = $1 AND e.finalized_at IS NOT NULL AND e.reverses IS NULL
      AND (e.effective_date > $2 AND e.schema = ANY ($3) OR e.effective_date = $2 AND e.schema = ANY ($4))
      AND NOT EXISTS (SELECT FROM ledger.ledger_event r WHERE r.tenant_id = e.tenant_id AND r.reverses = e.event_id)
    ORDER BY e.effective_date, e.event_id
    LIMIT $5";
/// The day up to which interest is booked by events in force that take effect by a day.
const ACCRUED_BY: &str = "
    SELECT max(e.effective_date)
    FROM ledger.ledger_event e
    WHERE e.loan_id = $1 AND e.schema = $2 AND e.effective_date <= $3 AND e.finalized_at IS NOT NULL AND e.reverses IS NULL
      AND NOT EXISTS (SELECT FROM ledger.ledger_event r WHERE r.tenant_id = e.tenant_id AND r.reverses = e.event_id)";
const INSERT_REPLAY: &str = "
    INSERT INTO lending.loan_replay (tenant_id, loan_id, number, from_day, because, payment_id, taken_back)
    SELECT $1, $2, coalesce(max(number), 0) + 1, $3, $4, $5, $6 FROM lending.loan_replay WHERE loan_id = $2
    RETURNING number";
/// Excludes reversals on the same day, which affect no day.
const REVERSED: &str = "
    SELECT e.effective_date, r.effective_date, n.account, sum(n.credit_minor - n.debit_minor)::bigint
    FROM ledger.ledger_event e
    JOIN ledger.ledger_event r ON r.tenant_id = e.tenant_id AND r.reverses = e.event_id
    JOIN ledger.ledger_entry n ON n.tenant_id = e.tenant_id AND n.event_id = e.event_id
    WHERE e.loan_id = $1
      AND e.schema = $2
      AND e.effective_date >= $3
      AND e.finalized_at IS NOT NULL
      AND r.finalized_at IS NOT NULL
      AND r.effective_date > e.effective_date
    GROUP BY 1, 2, 3
    ORDER BY 1, 2, 3";

/// An event in force in the ledger.
#[derive(Debug, Clone)]
pub(crate) struct EventInForce {
    pub event_id: Uuid,
    pub schema: String,
    pub correlation_id: String,
    pub effective_date: Date,
}

/// Returns the events in force after `day`, of `schemas`, and on the day itself, of `on_that_day`.
pub(crate) async fn events_in_force_after(
    tx: &Tx,
    loan_id: Uuid,
    day: Date,
    schemas: &[&str],
    on_that_day: &[&str],
    limit: i64,
) -> Result<Vec<EventInForce>, DbError> {
    let rows = tx.query(IN_FORCE, &[&loan_id, &day, &schemas, &on_that_day, &limit]).await?;
    let read = |row: &Row| EventInForce {
        event_id: row.get(0),
        schema: row.get(1),
        correlation_id: row.get(2),
        effective_date: row.get(3),
    };
    Ok(rows.iter().map(read).collect())
}

/// Returns the day up to which interest is booked by events in force that take effect by `day`.
pub(crate) async fn accrued_by(tx: &Tx, loan_id: Uuid, schema: &str, day: Date) -> Result<Option<Date>, DbError> {
    Ok(tx.query_one(ACCRUED_BY, &[&loan_id, &schema, &day]).await?.get(0))
}

/// Stores a replay and returns its number, which counts the loan's replays. The loan must be locked.
pub(crate) async fn insert_replay(
    tx: &Tx,
    loan_id: Uuid,
    from: Date,
    reason: &str,
    payment_id: Option<Uuid>,
    reversed: usize,
) -> Result<i32, DbError> {
    let tenant = tx.tenant()?.as_str();
    let reversed = i32::try_from(reversed).unwrap_or(i32::MAX);
    let row = tx.query_one(INSERT_REPLAY, &[&tenant, &loan_id, &from, &reason, &payment_id, &reversed]).await?;
    Ok(row.get(0))
}

/// All charge-offs of one day that were reversed on another.
pub(crate) struct ReversedChargeOff {
    pub from: Date,
    pub to: Date,
    /// The credits to each account; debits are negative.
    pub credits: Vec<(Account, Minor)>,
}

/// Returns the reversed charge-offs of `from` and later days, in the order of days.
pub(crate) async fn reversed_charge_offs(
    tx: &Tx,
    loan_id: Uuid,
    schema: &str,
    from: Date,
) -> Result<Vec<ReversedChargeOff>, DbError> {
    let mut charge_offs: Vec<ReversedChargeOff> = Vec::new();
    for row in tx.query(REVERSED, &[&loan_id, &schema, &from]).await? {
        let (from, to): (Date, Date) = (row.get(0), row.get(1));
        let credit = (row.try_get(2)?, row.get(3));
        match charge_offs.last_mut().filter(|last| (last.from, last.to) == (from, to)) {
            Some(last) => last.credits.push(credit),
            None => charge_offs.push(ReversedChargeOff { from, to, credits: vec![credit] }),
        }
    }
    Ok(charge_offs)
}
