//! Proves that nothing is lost: recomputes everything from the lines of a tenant's final events.
//!
//! The checks read every line of the tenant. They are for off-peak hours, not for a request.

use crate::{Account, LedgerError};
use onceward_db::{Db, DbError, Row, Tx};
use onceward_envelope::TenantId;
use onceward_money::{Currency, Minor, MoneyError};
use serde::Serialize;
use std::collections::BTreeMap;
use uuid::Uuid;

const TENANTS: &str = "SELECT tenant_id FROM ledger.tenants()";

const DIFFERENCES: &str = "
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

const UNBALANCED: &str = "
    SELECT e.event_id, e.loan_id, n.currency, coalesce(sum(n.debit_minor), 0)::bigint, coalesce(sum(n.credit_minor), 0)::bigint
    FROM ledger.ledger_event e
    LEFT JOIN ledger.ledger_entry n ON n.tenant_id = e.tenant_id AND n.event_id = e.event_id
    WHERE e.finalized_at IS NOT NULL
    GROUP BY e.event_id, e.loan_id, n.currency
    HAVING count(n.line_no) < 2 OR sum(n.debit_minor) <> sum(n.credit_minor)
    ORDER BY e.event_id, n.currency
    LIMIT $1";

const TRIAL_BALANCE: &str = "
    SELECT n.account, n.currency, sum(n.debit_minor)::bigint, sum(n.credit_minor)::bigint
    FROM ledger.ledger_entry n
    JOIN ledger.ledger_event e ON e.tenant_id = n.tenant_id AND e.event_id = n.event_id
    WHERE e.finalized_at IS NOT NULL
    GROUP BY n.account, n.currency
    ORDER BY n.account, n.currency";

/// The maximum number of findings per check.
pub const MAX_FINDINGS: i64 = 1_000;

/// The results of all checks of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerCheck {
    /// Balances that are not the sums of their lines.
    pub differences: Vec<BalanceDifference>,
    /// Final events that do not balance.
    pub unbalanced: Vec<UnbalancedEvent>,
    /// Debits and credits per account and currency.
    pub trial_balance: Vec<TrialBalanceLine>,
}

impl LedgerCheck {
    /// Returns whether all checks passed.
    pub fn agrees(&self) -> bool {
        self.differences.is_empty() && self.unbalanced.is_empty() && self.imbalances().is_empty()
    }

    /// Returns debits less credits over all accounts, for each currency in which that is not zero.
    pub fn imbalances(&self) -> Vec<(Currency, i128)> {
        let mut imbalances: BTreeMap<Currency, i128> = BTreeMap::new();
        for line in &self.trial_balance {
            *imbalances.entry(line.currency).or_default() +=
                i128::from(line.debits.get()) - i128::from(line.credits.get());
        }
        imbalances.into_iter().filter(|(_, imbalance)| *imbalance != 0).collect()
    }

    /// Returns whether a check reached its maximum of findings, so that more may exist.
    pub fn is_truncated(&self) -> bool {
        [self.differences.len(), self.unbalanced.len()].iter().any(|found| *found as i64 >= MAX_FINDINGS)
    }
}

/// A balance that is not the sum of its lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BalanceDifference {
    /// The loan.
    pub loan_id: Uuid,
    /// The account.
    pub account: Account,
    /// The currency.
    pub currency: Currency,
    /// The stored balance.
    #[serde(rename = "kept_minor")]
    pub stored: Minor,
    /// The sum of the lines.
    #[serde(rename = "recomputed_minor")]
    pub recomputed: Minor,
}

/// A final event whose debits and credits differ, or that has fewer than two lines in a currency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnbalancedEvent {
    /// The event.
    pub event_id: Uuid,
    /// The loan.
    pub loan_id: Uuid,
    /// The currency; none if the event has no lines.
    pub currency: Option<Currency>,
    /// The sum of the debits.
    #[serde(rename = "debits_minor")]
    pub debits: Minor,
    /// The sum of the credits.
    #[serde(rename = "credits_minor")]
    pub credits: Minor,
}

/// The totals ever posted to an account, over all loans of the tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TrialBalanceLine {
    /// The account.
    pub account: Account,
    /// The currency.
    pub currency: Currency,
    /// The sum of the debits.
    #[serde(rename = "debits_minor")]
    pub debits: Minor,
    /// The sum of the credits.
    #[serde(rename = "credits_minor")]
    pub credits: Minor,
}

impl TrialBalanceLine {
    /// Returns debits less credits. Over all accounts of a currency, these sum to zero.
    pub fn balance(&self) -> Result<Minor, MoneyError> {
        self.debits.checked_sub(self.credits)
    }
}

/// Returns the tenants with data in the ledger, even if their events or their balances are lost.
pub async fn tenants(db: &Db) -> Result<Vec<TenantId>, DbError> {
    let rows = db.connection().await?.query(TENANTS, &[]).await?;
    let invalid = |_| DbError::Config("the ledger contains an invalid tenant id; correct the row".to_owned());
    rows.iter().map(|row| TenantId::new(row.get::<_, &str>(0)).map_err(invalid)).collect()
}

/// Runs all checks for the transaction's tenant.
pub async fn check(tx: &Tx) -> Result<LedgerCheck, LedgerError> {
    Ok(LedgerCheck {
        differences: differences(tx).await?,
        unbalanced: unbalanced(tx).await?,
        trial_balance: trial_balance(tx).await?,
    })
}

/// Returns the balances that differ from their lines: none, unless a writer bypassed the ledger.
pub async fn differences(tx: &Tx) -> Result<Vec<BalanceDifference>, LedgerError> {
    let rows = tx.query(DIFFERENCES, &[&MAX_FINDINGS]).await?;
    read(&rows, |row| {
        Ok(BalanceDifference {
            loan_id: row.try_get(0)?,
            account: row.try_get(1)?,
            currency: row.try_get(2)?,
            stored: row.try_get(3)?,
            recomputed: row.try_get(4)?,
        })
    })
}

/// Returns the final events that do not balance: none, unless a writer bypassed the ledger.
pub async fn unbalanced(tx: &Tx) -> Result<Vec<UnbalancedEvent>, LedgerError> {
    let rows = tx.query(UNBALANCED, &[&MAX_FINDINGS]).await?;
    read(&rows, |row| {
        Ok(UnbalancedEvent {
            event_id: row.try_get(0)?,
            loan_id: row.try_get(1)?,
            currency: row.try_get(2)?,
            debits: row.try_get(3)?,
            credits: row.try_get(4)?,
        })
    })
}

/// Returns debits and credits per account and currency.
pub async fn trial_balance(tx: &Tx) -> Result<Vec<TrialBalanceLine>, LedgerError> {
    let rows = tx.query(TRIAL_BALANCE, &[]).await?;
    read(&rows, |row| {
        Ok(TrialBalanceLine {
            account: row.try_get(0)?,
            currency: row.try_get(1)?,
            debits: row.try_get(2)?,
            credits: row.try_get(3)?,
        })
    })
}

fn read<T>(rows: &[Row], one: impl Fn(&Row) -> Result<T, DbError>) -> Result<Vec<T>, LedgerError> {
    Ok(rows.iter().map(one).collect::<Result<_, _>>()?)
}
