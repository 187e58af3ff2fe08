//! The account balances of one loan, in one currency.

use crate::{Account, NewLine, Side};
use onceward_money::{Currency, Minor, MoneyError};

/// The balances of a loan. An unused account has a balance of zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balances {
    currency: Currency,
    amounts: [Minor; Account::ALL.len()],
}

impl Balances {
    /// Returns the balances of a loan without postings.
    pub const fn empty(currency: Currency) -> Self {
        Self { currency, amounts: [Minor::ZERO; Account::ALL.len()] }
    }

    /// Returns debits less credits of `account`.
    pub const fn get(&self, account: Account) -> Minor {
        self.amounts[account as usize]
    }

    /// Returns the balance of `account` on its usual side: an amount owed, held or earned is positive for every
    /// account.
    pub fn normal(&self, account: Account) -> Result<Minor, MoneyError> {
        match account.normal_side() {
            Side::Debit => Ok(self.get(account)),
            Side::Credit => self.get(account).checked_neg(),
        }
    }

    /// Returns every account with its balance.
    pub fn iter(&self) -> impl Iterator<Item = (Account, Minor)> {
        Account::ALL.into_iter().map(|account| (account, self.get(account)))
    }

    /// Applies `lines` as the database will when they are posted: a caller that has read the balances under lock knows
    /// the new ones without another query. On an error, nothing is changed.
    pub fn apply(&mut self, lines: &[NewLine]) -> Result<(), MoneyError> {
        let mut after = self.clone();
        for line in lines {
            let amount = &mut after.amounts[line.account as usize];
            *amount = match line.side {
                Side::Debit => amount.checked_add(line.amount)?,
                Side::Credit => amount.checked_sub(line.amount)?,
            };
        }
        *self = after;
        Ok(())
    }

    pub(crate) fn set(&mut self, account: Account, balance: Minor) {
        self.amounts[account as usize] = balance;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{credit, debit};

    #[test]
    fn lines_change_balances_and_each_account_has_its_normal_side() {
        let mut balances = Balances::empty(Currency::USD);
        let amount = Minor::new(500);
        balances.apply(&[debit(Account::Cash, amount, ""), credit(Account::Suspense, amount, "")]).unwrap();
        assert_eq!(balances.get(Account::Cash), amount);
        assert_eq!(balances.get(Account::Suspense), Minor::new(-500));
        assert_eq!(balances.normal(Account::Suspense), Ok(amount));
        assert_eq!(Minor::sum(balances.iter().map(|(_, balance)| balance)), Ok(Minor::ZERO));
    }

    #[test]
    fn an_overflow_changes_nothing() {
        let mut balances = Balances::empty(Currency::USD);
        balances.apply(&[debit(Account::Cash, Minor::MAX, "")]).unwrap();
        let before = balances.clone();
        let lines = [credit(Account::Suspense, Minor::new(1), ""), debit(Account::Cash, Minor::new(1), "")];
        assert_eq!(balances.apply(&lines), Err(MoneyError::Overflow));
        assert_eq!(balances, before);
    }
}
