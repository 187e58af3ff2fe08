//! From a division to the lines of a posting, and from balances to what is told of them.

use super::events::NewBalances;
use crate::loans::postings::{PAYMENT, PREPAYMENT};
use crate::model::{Allocation, Bucket, Hints};
use onceward_ledger::{Account, Balances, Line, credit, debit};
use onceward_money::{Minor, MoneyError};

/// Money from suspense pays what is due.
pub(crate) const ALLOCATION: &str = "posting.allocation.v1";
/// What a returned payment costs the borrower.
pub(crate) const RETURN_FEE: &str = "posting.return_fee.v1";

/// A payment that asks to go to the principal pays no instalment, so it is another kind of posting.
pub(crate) fn schema(hints: Hints) -> &'static str {
    if hints.bucket == Some(Bucket::Principal) { PREPAYMENT } else { PAYMENT }
}

/// A payment: cash, and what it pays.
pub(crate) fn payment_lines(amount: Minor, applied: &[Allocation]) -> Vec<Line> {
    let cash = debit(Account::Cash, amount, "payment received");
    std::iter::once(cash).chain(applied.iter().map(paid)).collect()
}

/// Money that is there already: suspense, and what it pays.
pub(crate) fn allocation_lines(applied: &[Allocation]) -> Result<Vec<Line>, MoneyError> {
    let amount = Minor::sum(applied.iter().map(|part| part.amount))?;
    let held = debit(Account::Suspense, amount, "applied from suspense");
    Ok(std::iter::once(held).chain(applied.iter().map(paid)).collect())
}

pub(crate) fn fee_lines(amount: Minor) -> Vec<Line> {
    let memo = "returned payment fee";
    vec![debit(Account::FeesReceivable, amount, memo), credit(Account::FeeIncome, amount, memo)]
}

fn paid(part: &Allocation) -> Line {
    let (account, memo) = match part.bucket {
        Bucket::FeesDue => (Account::FeesReceivable, "fee collected"),
        Bucket::InterestPastDue | Bucket::InterestCurrent => (Account::InterestReceivable, "interest collected"),
        Bucket::Principal => (Account::LoanPrincipal, "principal reduction"),
        Bucket::Escrow => (Account::EscrowLiability, "escrow collected"),
        Bucket::Future => (Account::Suspense, "unapplied/suspense"),
    };
    credit(account, part.amount, memo)
}

/// The whole amount, held.
pub(crate) fn held(amount: Minor) -> Vec<Allocation> {
    vec![Allocation { bucket: Bucket::Future, amount }]
}

/// What is told of a loan's balances.
pub(crate) fn told(balances: &Balances) -> Result<NewBalances, MoneyError> {
    Ok(NewBalances {
        principal_minor: balances.normal(Account::LoanPrincipal)?,
        interest_receivable_minor: balances.normal(Account::InterestReceivable)?,
        escrow_liability_minor: balances.normal(Account::EscrowLiability)?,
        fees_receivable_minor: balances.normal(Account::FeesReceivable)?,
        cash_minor: balances.normal(Account::Cash)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_ledger::Side;
    use onceward_money::Currency;
    use proptest::prelude::*;

    const BUCKETS: [Bucket; 6] = [
        Bucket::FeesDue,
        Bucket::InterestPastDue,
        Bucket::InterestCurrent,
        Bucket::Principal,
        Bucket::Escrow,
        Bucket::Future,
    ];

    #[test]
    fn each_bucket_pays_its_account() {
        let applied = BUCKETS.map(|bucket| Allocation { bucket, amount: Minor::new(1) });
        let accounts: Vec<Account> = payment_lines(Minor::new(6), &applied).iter().map(|line| line.account).collect();
        let expected = [
            Account::Cash,
            Account::FeesReceivable,
            Account::InterestReceivable,
            Account::InterestReceivable,
            Account::LoanPrincipal,
            Account::EscrowLiability,
            Account::Suspense,
        ];
        assert_eq!(accounts, expected);
    }

    #[test]
    fn what_is_owed_and_what_is_held_is_told_as_positive() {
        let mut balances = Balances::empty(Currency::USD);
        let lines = payment_lines(Minor::new(30), &[Allocation { bucket: Bucket::Escrow, amount: Minor::new(30) }]);
        balances.apply(&lines).unwrap();
        let told = told(&balances).unwrap();
        assert_eq!((told.escrow_liability_minor, told.cash_minor), (Minor::new(30), Minor::new(30)));
    }

    proptest! {
        #[test]
        fn postings_balance_whatever_is_divided(amounts in proptest::collection::vec(1..1_000_000_000_i64, 1..6)) {
            let applied: Vec<Allocation> = amounts
                .iter()
                .zip(BUCKETS)
                .map(|(amount, bucket)| Allocation { bucket, amount: Minor::new(*amount) })
                .collect();
            let total = Minor::new(amounts.iter().sum());
            for lines in [payment_lines(total, &applied), allocation_lines(&applied).unwrap()] {
                let sum = |side| Minor::sum(lines.iter().filter(|line| line.side == side).map(|line| line.amount));
                prop_assert_eq!(sum(Side::Debit), Ok(total));
                prop_assert_eq!(sum(Side::Credit), Ok(total));
            }
        }
    }
}
