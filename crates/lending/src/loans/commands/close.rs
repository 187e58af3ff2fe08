//! The loan is closed: nothing more will happen.

use crate::{LendingError, loans::Loan, model::LoanStatus};
use onceward::Tx;
use onceward_ledger::{self as ledger, Account};

/// Not while the borrower's money is held.
pub(super) async fn close(tx: &Tx, loan: &mut Loan) -> Result<(), LendingError> {
    let status = loan.status.become_status(LoanStatus::Closed)?;
    let balances = ledger::balances(tx, loan.loan_id, loan.currency).await?;
    for account in [Account::Suspense, Account::EscrowLiability] {
        let amount = balances.normal(account)?;
        if !amount.is_zero() {
            return Err(LendingError::NotSettled { what: account.as_str(), amount });
        }
    }
    loan.status = status;
    Ok(())
}
