//! What the ledger says of a loan beyond its balances: what came in, and how the principal went.

use crate::loans::postings;
use jiff::civil::Date;
use onceward::{DbError, Tx};
use onceward_money::Minor;
use uuid::Uuid;

const PRINCIPAL_BALANCES: &str = "SELECT loan_id, balance_minor FROM ledger.balance \
     WHERE loan_id = ANY ($1) AND account = 'loan_principal'";
// Loan by loan, whatever the planner thinks of the sizes: a join would read all events of the tenant.
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
// What is taken back counts on the day of what it takes back.
const RECEIVED: &str = "SELECT e.loan_id, coalesce(o.effective_date, e.effective_date) AS day, \
         coalesce(sum(n.credit_minor - n.debit_minor) FILTER (WHERE n.account <> 'escrow_liability'), 0)::bigint, \
         coalesce(sum(n.credit_minor - n.debit_minor) FILTER (WHERE n.account = 'escrow_liability'), 0)::bigint \
     FROM ledger.ledger_event e \
     LEFT JOIN ledger.ledger_event o ON o.tenant_id = e.tenant_id AND o.event_id = e.reverses \
     JOIN ledger.ledger_entry n ON n.tenant_id = e.tenant_id AND n.event_id = e.event_id \
     WHERE e.loan_id = ANY ($1) AND e.finalized_at IS NOT NULL AND coalesce(o.schema, e.schema) = $2 \
       AND n.account IN ('loan_principal', 'interest_receivable', 'fees_receivable', 'suspense', 'escrow_liability') \
     GROUP BY 1, 2 ORDER BY 1, 2";

/// The principal of each loan after all that was posted.
pub(crate) async fn principal_balances(tx: &Tx, loans: &[Uuid]) -> Result<Vec<(Uuid, Minor)>, DbError> {
    let rows = tx.query(PRINCIPAL_BALANCES, &[&loans]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// By how much each loan's principal changed on which day after the one given for it.
pub(crate) async fn principal_changes(
    tx: &Tx,
    loans: &[Uuid],
    after: &[Date],
) -> Result<Vec<(Uuid, Date, Minor)>, DbError> {
    let rows = tx.query(PRINCIPAL_CHANGES, &[&loans, &after]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect())
}

/// What came in on a day.
pub(crate) struct Received {
    pub loan_id: Uuid,
    pub day: Date,
    /// For interest, principal and fees, or held for them.
    pub for_instalments: Minor,
    pub for_escrow: Minor,
}

/// What came in by payments, less what went back.
pub(crate) async fn received(tx: &Tx, loans: &[Uuid]) -> Result<Vec<Received>, DbError> {
    let rows = tx.query(RECEIVED, &[&loans, &postings::PAYMENT]).await?;
    let read = |row: &onceward::Row| Received {
        loan_id: row.get(0),
        day: row.get(1),
        for_instalments: row.get(2),
        for_escrow: row.get(3),
    };
    Ok(rows.iter().map(read).collect())
}
