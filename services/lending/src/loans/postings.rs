//! The kinds of ledger postings that lending writes, and the lines of each.
//!
//! | kind | debit | credit | once per |
//! | --- | --- | --- | --- |
//! | funding | loan_principal | disbursement_clearing | `funding:<loan>` |
//! | accrual | interest_receivable | interest_income | `accrual:<loan>:<from>:<to>` |
//! | late fee | fees_receivable | fee_income | `late_fee:<loan>:<schedule>.<instalment>` |
//! | fee for a returned payment | fees_receivable | fee_income | `payment:<payment>:return_fee` |
//! | charge-off | charge_off_expense | loan_principal, interest_receivable, fees_receivable | `charge_off:<loan>:<version>` |
//! | escrow | escrow_liability | cash | `escrow:<disbursement>` |
//! | suspense refund | suspense | cash | `suspense_refund:<loan>:<version>` |
//! | payment | cash | by the waterfall's buckets | the payment |
//! | suspense applied | suspense | by the waterfall's buckets | `allocation:<allocation>` |
//! | failed payment, not assigned to a loan | cash | unapplied_cash | `unapplied:<payment>` |
//! | failed payment, applied or refunded | unapplied_cash | cash | `unapplied_settled:<payment>` |
//!
//! Money posted as [`PAYMENT`] counts for instalments, except what goes to escrow. A prepayment that the borrower
//! directed to principal is posted as [`PREPAYMENT`]: it pays no instalment.

use super::Loan;
use crate::model::{Accrual, Allocation, AllocationHints, PaymentBucket};
use jiff::civil::Date;
use onceward_ledger::{Account, Balances, NewLedgerEvent, NewLine, credit, debit};
use onceward_money::{Minor, MoneyError};
use uuid::Uuid;

/// The loan's money is paid out.
pub const FUNDING: &str = "posting.funding.v1";
/// Accrued interest.
pub const ACCRUAL: &str = "posting.accrual.v1";
/// A late instalment's fee.
pub const LATE_FEE: &str = "posting.late_fee.v1";
/// The loan is charged off.
pub const CHARGE_OFF: &str = "posting.charge_off.v1";
/// Money out of escrow, for taxes and insurance.
pub const ESCROW: &str = "posting.escrow.v1";
/// Money for instalments.
pub const PAYMENT: &str = "posting.payment.v1";
/// Money held in suspense is refunded to the borrower. It no longer counts for instalments.
pub const SUSPENSE_REFUND: &str = "posting.suspense_refund.v1";
/// Money held in suspense pays what is due.
pub const ALLOCATION: &str = "posting.allocation.v1";
/// Money that the borrower directed to principal.
pub const PREPAYMENT: &str = "posting.prepayment.v1";

/// The fee that the borrower pays for a returned payment.
pub(crate) const RETURN_FEE: &str = "posting.return_fee.v1";

/// Creates an event of `loan` with a new id.
pub(crate) fn event(
    loan: &Loan,
    schema: &str,
    day: Date,
    correlation_id: String,
    lines: Vec<NewLine>,
) -> NewLedgerEvent {
    NewLedgerEvent {
        event_id: Uuid::now_v7(),
        loan_id: loan.loan_id,
        effective_date: day,
        correlation_id,
        schema: schema.to_owned(),
        currency: loan.currency,
        lines,
        note: None,
    }
}

pub(crate) fn funding(loan: &Loan, day: Date) -> NewLedgerEvent {
    let lines = vec![
        debit(Account::LoanPrincipal, loan.principal, "principal lent"),
        credit(Account::DisbursementClearing, loan.principal, "to be paid out to the borrower"),
    ];
    event(loan, FUNDING, day, format!("funding:{}", loan.loan_id), lines)
}

/// Interest of a range of days takes effect on the day after the range.
pub(crate) fn accrual(loan: &Loan, accrual: &Accrual, correlation_id: String) -> NewLedgerEvent {
    let memo = format!("interest from {} to {}", accrual.from, accrual.to);
    let lines = vec![
        debit(Account::InterestReceivable, accrual.amount, &memo),
        credit(Account::InterestIncome, accrual.amount, memo),
    ];
    event(loan, ACCRUAL, accrual.to, correlation_id, lines)
}

pub(crate) fn late_fee(loan: &Loan, number: u32, day: Date, amount: Minor, correlation_id: String) -> NewLedgerEvent {
    let memo = format!("late fee for instalment {number}");
    let lines = vec![debit(Account::FeesReceivable, amount, &memo), credit(Account::FeeIncome, amount, memo)];
    event(loan, LATE_FEE, day, correlation_id, lines)
}

pub(crate) fn suspense_refund(loan: &Loan, amount: Minor, day: Date) -> NewLedgerEvent {
    let memo = "refund to the borrower";
    let lines = vec![debit(Account::Suspense, amount, memo), credit(Account::Cash, amount, memo)];
    event(loan, SUSPENSE_REFUND, day, format!("suspense_refund:{}:{}", loan.loan_id, loan.version), lines)
}

/// Charges off everything owed; `None` if nothing is.
pub(crate) fn charge_off(loan: &Loan, balances: &Balances, day: Date) -> Result<Option<NewLedgerEvent>, MoneyError> {
    let owed: Vec<NewLine> = [Account::LoanPrincipal, Account::InterestReceivable, Account::FeesReceivable]
        .into_iter()
        .filter(|account| balances.get(*account).is_positive())
        .map(|account| credit(account, balances.get(account), "charged off"))
        .collect();
    if owed.is_empty() {
        return Ok(None);
    }
    let total = Minor::sum(owed.iter().map(|line| line.amount))?;
    let lines = [vec![debit(Account::ChargeOffExpense, total, "charged off")], owed].concat();
    let correlation_id = format!("charge_off:{}:{}", loan.loan_id, loan.version);
    Ok(Some(event(loan, CHARGE_OFF, day, correlation_id, lines)))
}

/// Returns the kind of posting. A payment directed to principal pays no instalment, so it is another kind.
pub(crate) fn payment_schema(hints: AllocationHints) -> &'static str {
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
pub(crate) fn return_fee_lines(amount: Minor) -> Vec<NewLine> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_ledger::Side;
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
