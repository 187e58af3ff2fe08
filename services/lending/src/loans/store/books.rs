//! A loan's ledger data beyond its balances: the money received, and the changes of the principal.

use crate::loans::{Loan, postings};
use jiff::civil::Date;
use onceward::{DbError, Tx};
use onceward_money::Minor;
use uuid::Uuid;

const SUSPENSE_BALANCES: &str = "
    SELECT loan_id, -balance_minor
    FROM ledger.balance
    WHERE loan_id = ANY ($1)
      AND account = 'suspense'
      AND balance_minor < 0";
/// The running balance at the end of each day on which it changed, if that balance still stood after the given day.
const LOWEST_SUSPENSE: &str = "
    SELECT min(d.held) FILTER (WHERE d.until IS NULL OR d.until > $3), min(d.day)
    FROM (
        SELECT e.effective_date AS day,
            (sum(sum(n.credit_minor - n.debit_minor)) OVER days)::bigint AS held,
            lead(e.effective_date) OVER days AS until
        FROM ledger.ledger_event e
        JOIN ledger.ledger_entry n ON n.tenant_id = e.tenant_id AND n.event_id = e.event_id
        WHERE e.loan_id = $1
          AND e.finalized_at IS NOT NULL
          AND n.account = 'suspense'
          AND n.currency = $2
        GROUP BY e.effective_date
        WINDOW days AS (ORDER BY e.effective_date)) d";
const PRINCIPAL_BALANCES: &str = "SELECT loan_id, balance_minor FROM ledger.balance \
     WHERE loan_id = ANY ($1) AND account = 'loan_principal'";
// Reads loan by loan, whatever sizes the planner estimates: a join would read all events of the tenant.
const PRINCIPAL_CHANGES: &str = "SELECT w.loan_id, c.effective_date, c.change \
     FROM unnest($1::uuid[], $2::date[]) AS w (loan_id, after_day) \
     CROSS JOIN LATERAL ( \
         SELECT e.effective_date, sum(n.debit_minor - n.credit_minor)::bigint AS change \
         FROM ledger.ledger_event e \
         JOIN ledger.ledger_entry n ON n.tenant_id = e.tenant_id AND n.event_id = e.event_id \
         WHERE e.loan_id = w.loan_id AND e.effective_date > w.after_day AND e.finalized_at IS NOT NULL \
           AND n.account = 'loan_principal' \
         GROUP BY e.effective_date) c \
     ORDER BY w.loan_id, c.effective_date";
// A reversal counts on the day of the event that it reverses.
const RECEIVED: &str = "SELECT e.loan_id, coalesce(o.effective_date, e.effective_date) AS day, \
         coalesce(sum(n.credit_minor - n.debit_minor) FILTER (WHERE n.account <> 'escrow_liability'), 0)::bigint, \
         coalesce(sum(n.credit_minor - n.debit_minor) FILTER (WHERE n.account = 'escrow_liability'), 0)::bigint \
     FROM ledger.ledger_event e \
     LEFT JOIN ledger.ledger_event o ON o.tenant_id = e.tenant_id AND o.event_id = e.reverses \
     JOIN ledger.ledger_entry n ON n.tenant_id = e.tenant_id AND n.event_id = e.event_id \
     WHERE e.loan_id = ANY ($1) AND e.finalized_at IS NOT NULL AND coalesce(o.schema, e.schema) = ANY ($2) \
       AND n.account IN ('loan_principal', 'interest_receivable', 'fees_receivable', 'suspense', 'escrow_liability') \
     GROUP BY 1, 2 ORDER BY 1, 2";

/// Returns the principal of each loan after everything posted.
pub(crate) async fn principal_balances(tx: &Tx, loans: &[Uuid]) -> Result<Vec<(Uuid, Minor)>, DbError> {
    let rows = tx.query(PRINCIPAL_BALANCES, &[&loans]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Returns the daily changes of each loan's principal after the day given for it.
pub(crate) async fn principal_changes(
    tx: &Tx,
    loans: &[Uuid],
    after: &[Date],
) -> Result<Vec<(Uuid, Date, Minor)>, DbError> {
    let rows = tx.query(PRINCIPAL_CHANGES, &[&loans, &after]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect())
}

/// The money received on a day.
pub(crate) struct DailyReceipts {
    pub loan_id: Uuid,
    pub day: Date,
    /// For interest, principal and fees, or held for them.
    pub for_instalments: Minor,
    pub for_escrow: Minor,
}

/// Returns the suspense balance of each loan that has one.
pub(crate) async fn suspense_balances(tx: &Tx, loans: &[Uuid]) -> Result<Vec<(Uuid, Minor)>, DbError> {
    let rows = tx.query(SUSPENSE_BALANCES, &[&loans]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Returns the lowest suspense balance at the end of `day` or of any later day.
pub(crate) async fn lowest_suspense(tx: &Tx, loan: &Loan, day: Date) -> Result<Minor, DbError> {
    let row = tx.query_one(LOWEST_SUSPENSE, &[&loan.loan_id, &loan.currency, &day]).await?;
    let (lowest, first_day): (Option<Minor>, Option<Date>) = (row.get(0), row.get(1));
    let lowest = lowest.unwrap_or(Minor::ZERO);
    Ok(if first_day.is_some_and(|first| first <= day) { lowest } else { lowest.min(Minor::ZERO) })
}

/// Returns the money received by payments, less returns and refunds.
pub(crate) async fn received(tx: &Tx, loans: &[Uuid]) -> Result<Vec<DailyReceipts>, DbError> {
    // Money paid from suspense was received before, but the part paid to escrow is no longer available to instalments.
    let schemas = [postings::PAYMENT, postings::SUSPENSE_REFUND, postings::ALLOCATION];
    let rows = tx.query(RECEIVED, &[&loans, &schemas.as_slice()]).await?;
    let read = |row: &onceward::Row| DailyReceipts {
        loan_id: row.get(0),
        day: row.get(1),
        for_instalments: row.get(2),
        for_escrow: row.get(3),
    };
    Ok(rows.iter().map(read).collect())
}
