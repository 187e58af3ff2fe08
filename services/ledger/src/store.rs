//! All SQL of the ledger that is not in its migrations. Row-level security adds the tenant to every condition.

pub(crate) const POST: &str = "
    SELECT given_id, known_id FROM ledger.post_events($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";

pub(crate) const REVERSE: &str = "SELECT outcome, known_id FROM ledger.reverse_event($1, $2, $3, $4, $5, $6)";

pub(crate) const BALANCES: &str = "
    SELECT account, balance_minor FROM ledger.latest_balances($1) WHERE currency = $2";

pub(crate) const BALANCES_OF_ALL: &str = "
    SELECT loan_id, account, balance_minor FROM unnest($1::uuid[], $2::text[]) AS w (loan_id, currency)
    JOIN ledger.balance b USING (loan_id, currency)";

pub(crate) const LOCK_BALANCES: &str = "
    SELECT account, balance_minor FROM ledger.lock_balances($1, $2, $3) WHERE currency = $2";

pub(crate) const BALANCES_AS_OF: &str = "
    SELECT n.account, sum(n.debit_minor - n.credit_minor)::bigint
    FROM ledger.ledger_event e
    JOIN ledger.ledger_entry n ON n.tenant_id = e.tenant_id AND n.event_id = e.event_id
    WHERE e.loan_id = $1 AND n.currency = $2 AND e.effective_date <= $3 AND e.finalized_at IS NOT NULL
    GROUP BY n.account";

/// Returns one row per line; the lines of an event are adjacent.
pub(crate) const HISTORY: &str = "
    SELECT e.event_id, e.loan_id, e.schema, e.correlation_id, e.effective_date, e.finalized_at, e.reverses, e.note,
        r.event_id AS reversed_by, n.account, n.currency, n.debit_minor, n.credit_minor, n.memo
    FROM (SELECT * FROM ledger.ledger_event
          WHERE loan_id = $1 AND finalized_at IS NOT NULL
            AND effective_date <= coalesce($2::date, 'infinity')
            AND (effective_date, event_id) > (coalesce($3::date, '-infinity'), coalesce($4::uuid, '00000000-0000-0000-0000-000000000000'))
          ORDER BY effective_date, event_id
          LIMIT $5) e
    JOIN ledger.ledger_entry n ON n.tenant_id = e.tenant_id AND n.event_id = e.event_id
    LEFT JOIN ledger.ledger_event r ON r.tenant_id = e.tenant_id AND r.reverses = e.event_id AND r.finalized_at IS NOT NULL
    ORDER BY e.effective_date, e.event_id, n.line_no";

pub(crate) const EVENT: &str = "
    SELECT e.event_id, e.loan_id, e.schema, e.correlation_id, e.effective_date, e.finalized_at, e.reverses, e.note,
        r.event_id AS reversed_by, n.account, n.currency, n.debit_minor, n.credit_minor, n.memo
    FROM ledger.ledger_event e
    JOIN ledger.ledger_entry n ON n.tenant_id = e.tenant_id AND n.event_id = e.event_id
    LEFT JOIN ledger.ledger_event r ON r.tenant_id = e.tenant_id AND r.reverses = e.event_id AND r.finalized_at IS NOT NULL
    WHERE e.event_id = $1 AND e.finalized_at IS NOT NULL
    ORDER BY n.line_no";

pub(crate) const DIFFERENCES: &str = "
    WITH recomputed AS (
        SELECT n.tenant_id, n.loan_id, n.account, n.currency, sum(n.debit_minor - n.credit_minor) AS balance_minor
        FROM ledger.ledger_entry n
        JOIN ledger.ledger_event e ON e.tenant_id = n.tenant_id AND e.event_id = n.event_id
        WHERE e.finalized_at IS NOT NULL
        GROUP BY n.tenant_id, n.loan_id, n.account, n.currency)
    SELECT loan_id, account, currency, coalesce(b.balance_minor, 0), coalesce(r.balance_minor, 0)::bigint
    FROM ledger.balance b
    FULL JOIN recomputed r USING (tenant_id, loan_id, account, currency)
    WHERE coalesce(b.balance_minor, 0) <> coalesce(r.balance_minor, 0)
    ORDER BY loan_id, account, currency
    LIMIT $1";

pub(crate) const UNBALANCED: &str = "
    SELECT e.event_id, e.loan_id, n.currency, coalesce(sum(n.debit_minor), 0)::bigint, coalesce(sum(n.credit_minor), 0)::bigint
    FROM ledger.ledger_event e
    LEFT JOIN ledger.ledger_entry n ON n.tenant_id = e.tenant_id AND n.event_id = e.event_id
    WHERE e.finalized_at IS NOT NULL
    GROUP BY e.event_id, e.loan_id, n.currency
    HAVING count(n.line_no) < 2 OR sum(n.debit_minor) <> sum(n.credit_minor)
    ORDER BY e.event_id, n.currency
    LIMIT $1";

pub(crate) const TRIAL_BALANCE: &str = "
    SELECT n.account, n.currency, sum(n.debit_minor)::bigint, sum(n.credit_minor)::bigint
    FROM ledger.ledger_entry n
    JOIN ledger.ledger_event e ON e.tenant_id = n.tenant_id AND e.event_id = n.event_id
    WHERE e.finalized_at IS NOT NULL
    GROUP BY n.account, n.currency
    ORDER BY n.account, n.currency";

pub(crate) const TENANTS: &str = "SELECT tenant_id FROM ledger.tenants()";
