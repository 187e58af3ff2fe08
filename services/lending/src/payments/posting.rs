//! Converts a division to the lines of a posting, and balances to their published form.

use super::events::NewBalances;
pub(crate) use crate::loans::postings::ALLOCATION;
use crate::loans::postings::{PAYMENT, PREPAYMENT};
use crate::model::{Allocation, AllocationHints, PaymentBucket};
use onceward_ledger::{Account, Balances, NewLine, credit, debit};
use onceward_money::{Minor, MoneyError};

/// The fee that the borrower pays for a returned payment.
pub(crate) const RETURN_FEE: &str = "posting.return_fee.v1";

/// Returns the kind of posting. A payment directed to principal pays no instalment, so it is another kind.
pub(crate) fn schema(hints: AllocationHints) -> &'static str {
    if hints.bucket == Some(PaymentBucket::Principal) { PREPAYMENT } else { PAYMENT }
}

/// Returns the lines of a payment: cash, what it pays, and what it takes from suspense to pay that.
pub(crate) fn payment_lines(amount: Minor, applied: &[Allocation]) -> Result<Vec<NewLine>, MoneyError> {
    let cash = debit(Account::Cash, amount, "payment received");
    std::iter::once(Ok(cash)).chain(applied.iter().map(paid_line)).collect()
}

/// Returns the lines of an allocation: suspense, and what it pays.
pub(crate) fn allocation_lines(applied: &[Allocation]) -> Result<Vec<NewLine>, MoneyError> {
    let amount = Minor::sum(applied.iter().map(|part| part.amount))?;
    let held = debit(Account::Suspense, amount, FROM_SUSPENSE);
    std::iter::once(Ok(held)).chain(applied.iter().map(paid_line)).collect()
}

/// Returns the lines of the fee for a returned payment.
pub(crate) fn fee_lines(amount: Minor) -> Vec<NewLine> {
    let memo = "returned payment fee";
    vec![debit(Account::FeesReceivable, amount, memo), credit(Account::FeeIncome, amount, memo)]
}

const FROM_SUSPENSE: &str = "applied from suspense";

fn paid_line(part: &Allocation) -> Result<NewLine, MoneyError> {
    if part.bucket == PaymentBucket::Future && part.amount.is_negative() {
        return Ok(debit(Account::Suspense, part.amount.checked_neg()?, FROM_SUSPENSE));
    }
    let (account, memo) = match part.bucket {
        PaymentBucket::FeesDue => (Account::FeesReceivable, "fee collected"),
        PaymentBucket::InterestPastDue | PaymentBucket::InterestCurrent => {
            (Account::InterestReceivable, "interest collected")
        }
        PaymentBucket::Principal => (Account::LoanPrincipal, "principal reduction"),
        PaymentBucket::Escrow => (Account::EscrowLiability, "escrow collected"),
        PaymentBucket::Future => (Account::Suspense, "unapplied/suspense"),
    };
    Ok(credit(account, part.amount, memo))
}

/// Returns a division that holds the whole amount.
pub(crate) fn held(amount: Minor) -> Vec<Allocation> {
    vec![Allocation { bucket: PaymentBucket::Future, amount }]
}

/// Returns a loan's balances as they are published.
pub(crate) fn new_balances(balances: &Balances) -> Result<NewBalances, MoneyError> {
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

    const BUCKETS: [PaymentBucket; 6] = [
        PaymentBucket::FeesDue,
        PaymentBucket::InterestPastDue,
        PaymentBucket::InterestCurrent,
        PaymentBucket::Principal,
        PaymentBucket::Escrow,
        PaymentBucket::Future,
    ];

    #[test]
    fn each_bucket_pays_its_account() {
        let applied = BUCKETS.map(|bucket| Allocation { bucket, amount: Minor::new(1) });
        let accounts: Vec<Account> =
            payment_lines(Minor::new(6), &applied).unwrap().iter().map(|line| line.account).collect();
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
    fn amounts_owed_and_amounts_held_are_published_as_positive() {
        let mut balances = Balances::empty(Currency::USD);
        let lines =
            payment_lines(Minor::new(30), &[Allocation { bucket: PaymentBucket::Escrow, amount: Minor::new(30) }])
                .unwrap();
        balances.apply(&lines).unwrap();
        let published = new_balances(&balances).unwrap();
        assert_eq!((published.escrow_liability_minor, published.cash_minor), (Minor::new(30), Minor::new(30)));
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
            for lines in [payment_lines(total, &applied).unwrap(), allocation_lines(&applied).unwrap()] {
                let sum = |side| Minor::sum(lines.iter().filter(|line| line.side == side).map(|line| line.amount));
                prop_assert_eq!(sum(Side::Debit), Ok(total));
                prop_assert_eq!(sum(Side::Credit), Ok(total));
            }
        }
    }
}
