//! Reading: a loan's balances, now or as of a day, and the history behind them.

use crate::{Account, Balances, HistoryCursor, LedgerError, LedgerEvent, LedgerLine, Side};
use jiff::civil::Date;
use onceward_db::{DbError, Row, Tx};
use onceward_money::{Currency, Minor};
use std::collections::HashMap;
use uuid::Uuid;

const BALANCES: &str = "
    SELECT account, balance_minor FROM ledger.latest_balances($1) WHERE currency = $2";

const BALANCES_OF_ALL: &str = "
    SELECT loan_id, account, balance_minor FROM unnest($1::uuid[], $2::text[]) AS w (loan_id, currency)
    JOIN ledger.balance b USING (loan_id, currency)";

const LOCK_BALANCES: &str = "
    SELECT account, balance_minor FROM ledger.lock_balances($1, $2, $3) WHERE currency = $2";

const BALANCES_AS_OF: &str = "
    SELECT n.account, sum(n.debit_minor - n.credit_minor)::bigint
    FROM ledger.ledger_event e
    JOIN ledger.ledger_entry n ON n.tenant_id = e.tenant_id AND n.event_id = e.event_id
    WHERE e.loan_id = $1 AND n.currency = $2 AND e.effective_date <= $3 AND e.finalized_at IS NOT NULL
    GROUP BY n.account";

/// Returns one row per line; the lines of an event are adjacent.
const HISTORY: &str = "
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

const EVENT: &str = "
    SELECT e.event_id, e.loan_id, e.schema, e.correlation_id, e.effective_date, e.finalized_at, e.reverses, e.note,
        r.event_id AS reversed_by, n.account, n.currency, n.debit_minor, n.credit_minor, n.memo
    FROM ledger.ledger_event e
    JOIN ledger.ledger_entry n ON n.tenant_id = e.tenant_id AND n.event_id = e.event_id
    LEFT JOIN ledger.ledger_event r ON r.tenant_id = e.tenant_id AND r.reverses = e.event_id AND r.finalized_at IS NOT NULL
    WHERE e.event_id = $1 AND e.finalized_at IS NOT NULL
    ORDER BY n.line_no";

/// The maximum number of events per page of history.
pub const MAX_PAGE: u32 = 1_000;

/// Returns the balances of a loan after everything that was posted.
pub async fn balances(tx: &Tx, loan_id: Uuid, currency: Currency) -> Result<Balances, LedgerError> {
    collect(currency, &tx.query(BALANCES, &[&loan_id, &currency]).await?, 0)
}

/// Returns the balances of many loans, each in its currency, in the order given.
pub async fn balances_of_all(tx: &Tx, loans: &[(Uuid, Currency)]) -> Result<Vec<Balances>, LedgerError> {
    let (ids, currencies): (Vec<Uuid>, Vec<Currency>) = loans.iter().copied().unzip();
    let mut rows: HashMap<Uuid, Vec<Row>> = HashMap::with_capacity(loans.len());
    for row in tx.query(BALANCES_OF_ALL, &[&ids, &currencies]).await? {
        rows.entry(row.get(0)).or_default().push(row);
    }
    loans.iter().map(|(loan_id, currency)| collect(*currency, rows.get(loan_id).into_iter().flatten(), 1)).collect()
}

/// Returns the balances of a loan, locked until the transaction ends: no other transaction can post to this loan
/// meanwhile. Creates missing rows.
pub async fn balances_locked(tx: &Tx, loan_id: Uuid, currency: Currency) -> Result<Balances, LedgerError> {
    tx.tenant()?;
    let accounts = Account::ALL.map(Account::as_str);
    collect(currency, &tx.query(LOCK_BALANCES, &[&loan_id, &currency, &accounts.as_slice()]).await?, 0)
}

/// Returns the balances of a loan as of the end of `day`, from its events: everything effective by then, whenever it
/// was posted.
pub async fn balances_as_of(tx: &Tx, loan_id: Uuid, currency: Currency, day: Date) -> Result<Balances, LedgerError> {
    collect(currency, &tx.query(BALANCES_AS_OF, &[&loan_id, &currency, &day]).await?, 0)
}

/// Returns the events of a loan by effective date, up to and including the day `up_to`, starting after `after`. Returns
/// at most `limit`, and never more than [`MAX_PAGE`]; after a full page, the caller continues from the last event's
/// cursor.
pub async fn history(
    tx: &Tx,
    loan_id: Uuid,
    up_to: Option<Date>,
    after: Option<HistoryCursor>,
    limit: u32,
) -> Result<Vec<LedgerEvent>, LedgerError> {
    let (date, event_id) = (after.map(|cursor| cursor.effective_date), after.map(|cursor| cursor.event_id));
    let limit = i64::from(limit.min(MAX_PAGE));
    events(tx.query(HISTORY, &[&loan_id, &up_to, &date, &event_id, &limit]).await?)
}

/// Returns one event, if it exists and is final.
pub async fn event(tx: &Tx, event_id: Uuid) -> Result<Option<LedgerEvent>, LedgerError> {
    Ok(events(tx.query(EVENT, &[&event_id]).await?)?.pop())
}

/// Reads accounts from the column `account` and balances from the next one.
fn collect<'r>(
    currency: Currency,
    rows: impl IntoIterator<Item = &'r Row>,
    account: usize,
) -> Result<Balances, LedgerError> {
    let mut balances = Balances::empty(currency);
    for row in rows {
        balances.set(row.try_get(account).map_err(DbError::from)?, row.try_get(account + 1).map_err(DbError::from)?);
    }
    Ok(balances)
}

fn events(rows: Vec<Row>) -> Result<Vec<LedgerEvent>, LedgerError> {
    let mut events: Vec<LedgerEvent> = Vec::new();
    for row in rows {
        let event_id: Uuid = row.get("event_id");
        if events.last().is_none_or(|event| event.event_id != event_id) {
            events.push(LedgerEvent {
                event_id,
                loan_id: row.get("loan_id"),
                schema: row.get("schema"),
                correlation_id: row.get("correlation_id"),
                effective_date: row.get("effective_date"),
                finalized_at: row.get("finalized_at"),
                reverses: row.get("reverses"),
                reversed_by: row.get("reversed_by"),
                note: row.get("note"),
                lines: Vec::new(),
            });
        }
        let event = events.last_mut().expect("one was just pushed");
        event.lines.push(line(&row).map_err(LedgerError::from)?);
    }
    Ok(events)
}

fn line(row: &Row) -> Result<LedgerLine, DbError> {
    let (debit, credit): (Minor, Minor) = (row.try_get("debit_minor")?, row.try_get("credit_minor")?);
    let (side, amount) = if debit.is_positive() { (Side::Debit, debit) } else { (Side::Credit, credit) };
    Ok(LedgerLine {
        account: row.try_get("account")?,
        side,
        amount,
        currency: row.try_get("currency")?,
        memo: row.try_get("memo")?,
    })
}
