//! Proving that nothing is lost: everything recomputed from the lines of a tenant's final events.
//!
//! These read every line that the tenant has. They are for a check in the quiet hours, not for a request.

use crate::{Account, LedgerError, store};
use onceward_db::{Db, DbError, Row, Tx};
use onceward_envelope::TenantId;
use onceward_money::{Currency, Minor, MoneyError};
use serde::Serialize;
use std::collections::BTreeMap;
use uuid::Uuid;

/// The most findings that one check gives.
pub const MAX_FINDINGS: i64 = 1_000;

/// All that the checks find about a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Balances that are not the sums of their lines.
    pub differences: Vec<Difference>,
    /// Final events that do not balance.
    pub unbalanced: Vec<Unbalanced>,
    /// Debits and credits per account and currency.
    pub trial_balance: Vec<TrialLine>,
}

impl Checked {
    /// Nothing was lost.
    pub fn agrees(&self) -> bool {
        self.differences.is_empty() && self.unbalanced.is_empty() && self.left_over().is_empty()
    }

    /// What debits less credits of all accounts leave, where that is not nothing.
    pub fn left_over(&self) -> Vec<(Currency, i128)> {
        let mut left: BTreeMap<Currency, i128> = BTreeMap::new();
        for line in &self.trial_balance {
            *left.entry(line.currency).or_default() += i128::from(line.debits.get()) - i128::from(line.credits.get());
        }
        left.into_iter().filter(|(_, left)| *left != 0).collect()
    }

    /// As many were found as one check gives.
    pub fn may_be_more(&self) -> bool {
        [self.differences.len(), self.unbalanced.len()].iter().any(|found| *found as i64 >= MAX_FINDINGS)
    }
}

/// A balance that is not the sum of its lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The loan.
    pub loan_id: Uuid,
    /// The account.
    pub account: Account,
    /// The currency.
    pub currency: Currency,
    /// The balance that is kept.
    #[serde(rename = "kept_minor")]
    pub kept: Minor,
    /// What the lines add up to.
    #[serde(rename = "recomputed_minor")]
    pub recomputed: Minor,
}

/// A final event whose debits and credits differ, or that has fewer than two lines in a currency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unbalanced {
    /// The event.
    pub event_id: Uuid,
    /// The loan.
    pub loan_id: Uuid,
    /// The currency; none if the event has no lines.
    pub currency: Option<Currency>,
    /// What is debited.
    #[serde(rename = "debits_minor")]
    pub debits: Minor,
    /// What is credited.
    #[serde(rename = "credits_minor")]
    pub credits: Minor,
}

/// All that was ever posted to an account, of all loans of the tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TrialLine {
    /// The account.
    pub account: Account,
    /// The currency.
    pub currency: Currency,
    /// What was debited.
    #[serde(rename = "debits_minor")]
    pub debits: Minor,
    /// What was credited.
    #[serde(rename = "credits_minor")]
    pub credits: Minor,
}

impl TrialLine {
    /// Debits less credits. Over all accounts of a currency they add up to nothing.
    pub fn balance(&self) -> Result<Minor, MoneyError> {
        self.debits.checked_sub(self.credits)
    }
}

/// The tenants that have something in the ledger, also if their events or their balances are lost.
pub async fn tenants(db: &Db) -> Result<Vec<TenantId>, DbError> {
    let rows = db.connection().await?.query(store::TENANTS, &[]).await?;
    let unknown = |_| DbError::Config("the ledger names a tenant that there cannot be".to_owned());
    rows.iter().map(|row| TenantId::new(row.get::<_, &str>(0)).map_err(unknown)).collect()
}

/// All checks of the transaction's tenant.
pub async fn check(tx: &Tx) -> Result<Checked, LedgerError> {
    Ok(Checked {
        differences: differences(tx).await?,
        unbalanced: unbalanced(tx).await?,
        trial_balance: trial_balance(tx).await?,
    })
}

/// Where balances differ from their lines: nowhere, unless somebody went around the ledger.
pub async fn differences(tx: &Tx) -> Result<Vec<Difference>, LedgerError> {
    let rows = tx.query(store::DIFFERENCES, &[&MAX_FINDINGS]).await?;
    read(&rows, |row| {
        Ok(Difference {
            loan_id: row.try_get(0)?,
            account: row.try_get(1)?,
            currency: row.try_get(2)?,
            kept: row.try_get(3)?,
            recomputed: row.try_get(4)?,
        })
    })
}

/// Final events that do not balance: none, unless somebody went around the ledger.
pub async fn unbalanced(tx: &Tx) -> Result<Vec<Unbalanced>, LedgerError> {
    let rows = tx.query(store::UNBALANCED, &[&MAX_FINDINGS]).await?;
    read(&rows, |row| {
        Ok(Unbalanced {
            event_id: row.try_get(0)?,
            loan_id: row.try_get(1)?,
            currency: row.try_get(2)?,
            debits: row.try_get(3)?,
            credits: row.try_get(4)?,
        })
    })
}

/// Debits and credits per account and currency.
pub async fn trial_balance(tx: &Tx) -> Result<Vec<TrialLine>, LedgerError> {
    let rows = tx.query(store::TRIAL_BALANCE, &[]).await?;
    read(&rows, |row| {
        Ok(TrialLine {
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
