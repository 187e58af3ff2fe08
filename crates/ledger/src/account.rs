//! The chart of accounts. Every loan has all of them.

use bytes::BytesMut;
use postgres_types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use serde::{Deserialize, Serialize};
use std::{error::Error, fmt, str::FromStr};

/// One side of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// What assets and expenses grow by.
    Debit,
    /// What liabilities and income grow by.
    Credit,
}

impl Side {
    /// The other one.
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
    /// Debit. Money that came in, less what went out.
    Cash,
    /// Debit. What the borrower owes of the amount lent.
    LoanPrincipal,
    /// Debit. Interest accrued and not yet paid.
    InterestReceivable,
    /// Debit. Fees charged and not yet paid.
    FeesReceivable,
    /// Credit. The borrower's money kept for taxes and insurance; on the debit side when the lender has advanced it.
    EscrowLiability,
    /// Credit. The borrower's money that is not applied to anything yet.
    Suspense,
    /// Credit. Money that was promised, to the borrower or to an escrow payee, and has not left yet.
    DisbursementClearing,
    /// Credit. Interest earned, by accrual.
    InterestIncome,
    /// Credit. Fees earned; a waived fee is debited here.
    FeeIncome,
    /// Credit. What was paid on a loan after it had been charged off.
    RecoveryIncome,
    /// Debit. What is given up: principal, interest and fees that will not be paid.
    ChargeOffExpense,
    /// Credit. The other side of what a loan brought with it when it was taken over from another system.
    OpeningBalance,
}

impl Account {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 12] = [
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
    ];

    /// Its name.
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
        }
    }

    /// The side on which it usually stands.
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
            | Self::OpeningBalance => Side::Credit,
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The text names no account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such account; the accounts are those of `Account::ALL`")]
pub struct UnknownAccount;

impl FromStr for Account {
    type Err = UnknownAccount;

    fn from_str(text: &str) -> Result<Self, UnknownAccount> {
        Self::ALL.into_iter().find(|account| account.as_str() == text).ok_or(UnknownAccount)
    }
}

impl ToSql for Account {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.as_str().to_sql(ty, out)
    }

    fn accepts(ty: &Type) -> bool {
        <&str as ToSql>::accepts(ty)
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Account {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(<&str>::from_sql(ty, raw)?.parse()?)
    }

    fn accepts(ty: &Type) -> bool {
        <&str as FromSql>::accepts(ty)
    }
}

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
        assert_eq!("till".parse::<Account>(), Err(UnknownAccount));
    }

    #[test]
    fn accounts_are_listed_in_the_order_in_which_they_are_numbered() {
        for (number, account) in Account::ALL.into_iter().enumerate() {
            assert_eq!(account as usize, number);
        }
    }
}
