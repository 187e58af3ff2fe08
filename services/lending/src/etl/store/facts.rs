//! Builds facts from the ledger.

use crate::loans::postings;
use jiff::Timestamp;
use onceward::{DbError, Tx};

const DELETE_LOANS: &str = "DELETE FROM reporting.loan_fact WHERE window_start = $1 AND shard = $2";
const DELETE_PAYMENTS: &str = "DELETE FROM reporting.payment_fact WHERE window_start = $1 AND shard = $2";
const DELETE_BALANCES: &str = "DELETE FROM reporting.balance_fact WHERE window_start = $1 AND shard = $2";
/// One statement, so that all facts are built from the same state of the ledger. Balances are the current ones, less
/// the changes after the window: these are few for a window of today, and the result is right for any other.
///
/// A reversal has the kind of the event that it reverses.
const BUILD: &str = "
    WITH loan AS MATERIALIZED (
        SELECT l.loan_id, w.window_start, w.window_end
        FROM lending.etl_window w
        JOIN lending.etl_loan l ON l.tenant_id = w.tenant_id AND l.window_start = w.window_start
        WHERE w.window_start = $2 AND lending.etl_shard_of(l.loan_id, w.shards) = $3),
    event AS MATERIALIZED (
        SELECT e.loan_id, e.event_id, e.effective_date, e.created_at, e.reverses IS NOT NULL AS takes_back,
            coalesce(o.schema, e.schema) AS kind,
            substring(coalesce(o.correlation_id, e.correlation_id) FROM '^payment:([0-9a-f-]{36})')::uuid AS payment_id,
            t.happened_at < loan.window_end AS inside
        FROM loan
        JOIN ledger.ledger_event e ON e.loan_id = loan.loan_id
            AND e.effective_date >= (loan.window_start AT TIME ZONE 'UTC')::date
        LEFT JOIN ledger.ledger_event o ON o.tenant_id = e.tenant_id AND o.event_id = e.reverses
        CROSS JOIN LATERAL (SELECT lending.business_time(e.created_at, e.effective_date) AS happened_at) t
        WHERE e.finalized_at IS NOT NULL AND t.happened_at >= loan.window_start),
    line AS MATERIALIZED (
        SELECT e.loan_id, e.event_id, e.inside, e.kind, n.account, n.currency, n.debit_minor - n.credit_minor AS moved
        FROM event e
        JOIN ledger.ledger_entry n ON n.tenant_id = $1 AND n.event_id = e.event_id),
    moved AS (
        SELECT loan_id, account, currency, coalesce(sum(moved) FILTER (WHERE inside), 0) AS inside,
            coalesce(sum(moved) FILTER (WHERE NOT inside), 0) AS later
        FROM line GROUP BY loan_id, account, currency),
    counted AS (SELECT loan_id, count(*) AS events FROM event WHERE inside GROUP BY loan_id),
    status AS (
        SELECT loan.loan_id,
            (SELECT c.status FROM lending.loan_status_change c
             WHERE c.loan_id = loan.loan_id AND c.changed_at < loan.window_end
             ORDER BY c.changed_at DESC, c.version DESC LIMIT 1) AS status,
            (SELECT count(*) FROM lending.loan_status_change c
             WHERE c.loan_id = loan.loan_id AND c.changed_at >= loan.window_start AND c.changed_at < loan.window_end) AS changes
        FROM loan),
    totals AS (
        SELECT loan_id,
            -sum(moved) FILTER (WHERE account = 'disbursement_clearing') AS funded,
            -sum(moved) FILTER (WHERE account = 'interest_income') AS interest,
            -sum(moved) FILTER (WHERE account = 'fee_income') AS fees,
            sum(moved) FILTER (WHERE account = 'cash' AND kind = ANY ($4)) AS received,
            -sum(moved) FILTER (WHERE account = 'cash' AND kind = $5) AS escrow_paid,
            sum(moved) FILTER (WHERE account = 'charge_off_expense') AS charged_off
        FROM line WHERE inside GROUP BY loan_id),
    loan_facts AS (
        INSERT INTO reporting.loan_fact (tenant_id, window_start, loan_id, shard, borrower_entity_id, product_code,
            product_version, currency, principal_minor, status, events, funded_minor, interest_minor, fees_minor,
            received_minor, escrow_paid_minor, charged_off_minor)
        SELECT $1, $2, l.loan_id, $3, l.borrower_entity_id, l.product_code, l.product_version, l.currency,
            l.principal_minor, s.status, s.changes + coalesce(c.events, 0),
            coalesce(b.funded, 0), coalesce(b.interest, 0), coalesce(b.fees, 0), coalesce(b.received, 0),
            coalesce(b.escrow_paid, 0), coalesce(b.charged_off, 0)
        FROM status s
        JOIN lending.loan l ON l.tenant_id = $1 AND l.loan_id = s.loan_id
        LEFT JOIN counted c ON c.loan_id = s.loan_id
        LEFT JOIN totals b ON b.loan_id = s.loan_id
        RETURNING 1),
    payment_facts AS (
        INSERT INTO reporting.payment_fact (tenant_id, window_start, event_id, loan_id, shard, payment_id, kind,
            effective_date, posted_at, currency, amount_minor, to_fees_minor, to_interest_minor, to_principal_minor,
            to_escrow_minor, to_suspense_minor)
        SELECT $1, $2, e.event_id, e.loan_id, $3, e.payment_id, CASE WHEN e.takes_back THEN 'taken_back' ELSE 'posted' END,
            e.effective_date, e.created_at, p.currency, p.amount, p.fees, p.interest, p.principal, p.escrow, p.suspense
        FROM event e
        JOIN (SELECT event_id, currency,
                  coalesce(sum(moved) FILTER (WHERE account = 'cash'), 0) AS amount,
                  coalesce(-sum(moved) FILTER (WHERE account = 'fees_receivable'), 0) AS fees,
                  coalesce(-sum(moved) FILTER (WHERE account = 'interest_receivable'), 0) AS interest,
                  coalesce(-sum(moved) FILTER (WHERE account = 'loan_principal'), 0) AS principal,
                  coalesce(-sum(moved) FILTER (WHERE account = 'escrow_liability'), 0) AS escrow,
                  coalesce(-sum(moved) FILTER (WHERE account = 'suspense'), 0) AS suspense
              FROM line WHERE inside AND kind = ANY ($4) GROUP BY event_id, currency) p ON p.event_id = e.event_id
        RETURNING 1),
    balance_facts AS (
        INSERT INTO reporting.balance_fact
            (tenant_id, window_start, loan_id, account, currency, shard, window_end, moved_minor, balance_minor)
        SELECT $1, $2, b.loan_id, b.account, b.currency, $3, loan.window_end, coalesce(m.inside, 0),
            b.balance_minor - coalesce(m.later, 0)
        FROM loan
        JOIN ledger.balance b ON b.tenant_id = $1 AND b.loan_id = loan.loan_id
        LEFT JOIN moved m ON m.loan_id = b.loan_id AND m.account = b.account AND m.currency = b.currency
        WHERE coalesce(m.inside, 0) <> 0 OR b.balance_minor <> coalesce(m.later, 0)
        RETURNING 1)
    SELECT (SELECT count(*) FROM loan_facts)::int, (SELECT count(*) FROM payment_facts)::int,
        (SELECT count(*) FROM balance_facts)::int";

/// The number of facts of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::etl) struct FactCounts {
    pub loans: i32,
    pub payments: i32,
    pub balances: i32,
}

/// Builds the facts of a shard, which must be locked, and replaces the existing ones.
pub(in crate::etl) async fn replace_facts(tx: &Tx, window_start: Timestamp, shard: i32) -> Result<FactCounts, DbError> {
    for delete in [DELETE_LOANS, DELETE_PAYMENTS, DELETE_BALANCES] {
        tx.execute(delete, &[&window_start, &shard]).await?;
    }
    let payments: &[&str] = &[postings::PAYMENT, postings::PREPAYMENT];
    let row =
        tx.query_one(BUILD, &[&tx.tenant()?.as_str(), &window_start, &shard, &payments, &postings::ESCROW]).await?;
    Ok(FactCounts { loans: row.get(0), payments: row.get(1), balances: row.get(2) })
}
