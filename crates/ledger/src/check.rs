//! Proving that nothing is lost: everything recomputed from the lines of a tenant's final events.
//!
//! These read every line that the tenant has. They are for a check in the quiet hours, not for a request.

use crate::{Account, LedgerError, store};
use onceward_db::{DbError, Row, Tx};
use onceward_money::{Currency, Minor, MoneyError};
use uuid::Uuid;

/// The most findings that one check gives.
pub const MAX_FINDINGS: i64 = 1_000;

/// A balance that is not the sum of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The loan.
    pub loan_id: Uuid,
    /// The account.
    pub account: Account,
    /// The currency.
    pub currency: Currency,
    /// The balance that is kept.
    pub kept: Minor,
    /// What the lines add up to.
    pub recomputed: Minor,
}

/// A final event whose debits and credits differ, or that has fewer than two lines in a currency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unbalanced {
    /// The event.
    pub event_id: Uuid,
    /// The loan.
    pub loan_id: Uuid,
    /// The currency; none if the event has no lines.
    pub currency: Option<Currency>,
    /// What is debited.
    pub debits: Minor,
    /// What is credited.
    pub credits: Minor,
}

/// All that was ever posted to an account, of all loans of the tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialLine {
    /// The account.
    pub account: Account,
    /// The currency.
    pub currency: Currency,
    /// What was debited.
    pub debits: Minor,
    /// What was credited.
    pub credits: Minor,
}

impl TrialLine {
    /// Debits less credits. Over all accounts of a currency they add up to nothing.
    pub fn balance(&self) -> Result<Minor, MoneyError> {
        self.debits.checked_sub(self.credits)
    }
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
