//! The chart of accounts. Every loan has all of them except `unapplied_cash`; that account, with some cash, is in the
//! tenant's own books.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// One side of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Increases assets and expenses.
    Debit,
    /// Increases liabilities and income.
    Credit,
}

impl Side {
    /// Returns the other side.
    pub const fn opposite(self) -> Self {
        match self {
            Self::Debit => Self::Credit,
            Self::Credit => Self::Debit,
        }
    }
}

/// An account of a loan, from the lender's point of view. In text and in the database: `loan_principal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Account {
    /// Debit. Money received less money paid out.
    Cash,
    /// Debit. The part of the amount lent that the borrower owes.
    LoanPrincipal,
    /// Debit. Interest accrued and not yet paid.
    InterestReceivable,
    /// Debit. Fees charged and not yet paid.
    FeesReceivable,
    /// Credit. The borrower's money held for taxes and insurance; a debit balance if the lender has advanced it.
    EscrowLiability,
    /// Credit. The borrower's money that is not yet applied.
    Suspense,
    /// Credit. Money promised to the borrower or to an escrow payee, and not yet paid out.
    DisbursementClearing,
    /// Credit. Interest earned, by accrual.
    InterestIncome,
    /// Credit. Fees earned; a waived fee is debited here.
    FeeIncome,
    /// Credit. Payments received after the loan had been charged off.
    RecoveryIncome,
    /// Debit. Charged-off principal, interest and fees that will not be paid.
    ChargeOffExpense,
    /// Credit. The offset for balances of a loan that was taken over from another system.
    OpeningBalance,
    /// Credit. Money received and applied to no loan; it is owed to the payer.
    UnappliedCash,
}

impl Account {
    /// All accounts, in the order of their declaration.
    pub const ALL: [Self; 13] = [
        Self::Cash,
        Self::LoanPrincipal,
        Self::InterestReceivable,
        Self::FeesReceivable,
        Self::EscrowLiability,
        Self::Suspense,
        Self::DisbursementClearing,
        Self::InterestIncome,
        Self::FeeIncome,
        Self::RecoveryIncome,
        Self::ChargeOffExpense,
        Self::OpeningBalance,
        Self::UnappliedCash,
    ];

    /// Returns the account's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cash => "cash",
            Self::LoanPrincipal => "loan_principal",
            Self::InterestReceivable => "interest_receivable",
            Self::FeesReceivable => "fees_receivable",
            Self::EscrowLiability => "escrow_liability",
            Self::Suspense => "suspense",
            Self::DisbursementClearing => "disbursement_clearing",
            Self::InterestIncome => "interest_income",
            Self::FeeIncome => "fee_income",
            Self::RecoveryIncome => "recovery_income",
            Self::ChargeOffExpense => "charge_off_expense",
            Self::OpeningBalance => "opening_balance",
            Self::UnappliedCash => "unapplied_cash",
        }
    }

    /// Returns the side on which the account usually has its balance.
    pub const fn normal_side(self) -> Side {
        match self {
            Self::Cash
            | Self::LoanPrincipal
            | Self::InterestReceivable
            | Self::FeesReceivable
            | Self::ChargeOffExpense => Side::Debit,
            Self::EscrowLiability
            | Self::Suspense
            | Self::DisbursementClearing
            | Self::InterestIncome
            | Self::FeeIncome
            | Self::RecoveryIncome
            | Self::OpeningBalance
            | Self::UnappliedCash => Side::Credit,
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The error for text that names no account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such account; see `Account::ALL`")]
pub struct UnknownAccount;

impl FromStr for Account {
    type Err = UnknownAccount;

    fn from_str(text: &str) -> Result<Self, UnknownAccount> {
        Self::ALL.into_iter().find(|account| account.as_str() == text).ok_or(UnknownAccount)
    }
}

onceward_money::text_column!(Account);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_one_name_in_text_json_and_the_database() {
        let migration = crate::MIGRATIONS.steps[0].sql;
        for account in Account::ALL {
            let name = account.as_str();
            assert_eq!(name.parse(), Ok(account));
            assert_eq!(serde_json::to_string(&account).unwrap(), format!("\"{name}\""));
            assert!(migration.contains(&format!("'{name}'")), "{name} is not in the table's CHECK");
        }
        assert_eq!("unknown".parse::<Account>(), Err(UnknownAccount));
    }

    #[test]
    fn accounts_are_listed_in_the_order_of_their_numbers() {
        for (number, account) in Account::ALL.into_iter().enumerate() {
            assert_eq!(account as usize, number);
        }
    }
}
