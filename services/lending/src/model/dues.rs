//! The amounts due on a day.
//!
//! An instalment counts as paid by the sum received for it, not by how that sum was divided: a borrower who pays a few
//! days early has paid less interest and more principal than scheduled, and is not late. Money pays the oldest
//! instalment first.

use super::accrual::accrued_in;
use super::calendar::Calendar;
use super::principal::PrincipalHistory;
use super::product::ProductPolicy;
use super::rule_error::RuleError;
use super::schedule::{Instalment, RepaymentSchedule};
use super::waterfall::{Allocation, Outstanding, PaymentBucket};
use jiff::civil::Date;
use onceward_money::{Minor, MoneyError};

/// Money received for instalments: allocated to interest, principal and late fees or held for them, but neither escrow
/// nor a prepayment that the borrower directed to principal.
///
/// Late fees are included: a payment that would have paid its instalment, had it not paid an earlier late fee first,
/// must not cause another fee. A returned payment is a negative receipt on the day of the payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The day from which the money counts.
    pub on: Date,
    /// The amount received.
    pub amount: Minor,
}

/// The state of a loan's books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoanBooks {
    /// The principal owed over time.
    pub principal: PrincipalHistory,
    /// Interest that is accrued and unpaid.
    pub interest_receivable: Minor,
    /// The day up to which interest is accrued.
    pub accrued_to: Date,
    /// Fees that are charged and unpaid.
    pub fees_receivable: Minor,
    /// The money received for instalments.
    pub receipts: Vec<Receipt>,
    /// The total of escrow deposits received.
    pub escrow_deposited: Minor,
    /// The escrow balance; negative if the lender has advanced.
    pub escrow_balance: Minor,
    /// The suspense balance.
    pub suspense: Minor,
    /// The usable part of suspense, without later refunds. Negative if more was refunded than was held.
    pub usable_suspense: Minor,
}

impl LoanBooks {
    /// Returns the books for dividing suspense itself: it was counted as received, but has not paid anything yet.
    pub(crate) fn without_suspense(mut self, day: Date) -> Result<Self, MoneyError> {
        self.receipts.push(Receipt { on: day, amount: self.suspense.checked_neg()? });
        Ok(self)
    }

    /// Applies `part`, paid from suspense on `day`, to these books.
    pub(super) fn apply_from_suspense(&mut self, part: &Allocation, day: Date) -> Result<(), RuleError> {
        let amount = part.amount;
        match part.bucket {
            PaymentBucket::FeesDue => self.fees_receivable = self.fees_receivable.checked_sub(amount)?,
            PaymentBucket::InterestPastDue | PaymentBucket::InterestCurrent => {
                self.interest_receivable = self.interest_receivable.checked_sub(amount)?;
            }
            PaymentBucket::Principal => self.principal = self.principal.changed(day, amount.checked_neg()?)?,
            PaymentBucket::Escrow => {
                self.escrow_balance = self.escrow_balance.checked_add(amount)?;
                self.escrow_deposited = self.escrow_deposited.checked_add(amount)?;
                // The amount was held for instalments and is no longer available to them.
                self.receipts.push(Receipt { on: day, amount: amount.checked_neg()? });
            }
            PaymentBucket::Future => return Ok(()),
        }
        self.suspense = self.suspense.checked_sub(amount)?;
        self.usable_suspense = self.usable_suspense.checked_sub(amount)?;
        Ok(())
    }

    /// Returns whether the books show any debt of the borrower on `day`.
    pub(super) fn owes_on(&self, day: Date) -> bool {
        let owed = [self.principal.on(day), self.interest_receivable, self.fees_receivable];
        let held = [self.escrow_balance, self.suspense];
        owed.into_iter().any(Minor::is_positive) || held.into_iter().any(Minor::is_negative)
    }
}

/// The amounts due on a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dues {
    /// The amounts that a payment on that day can pay.
    pub outstanding: Outstanding,
    /// The oldest instalment that is due and not fully paid.
    pub oldest_unpaid: Option<UnpaidInstalment>,
}

/// An instalment that is due and not fully paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnpaidInstalment {
    /// The instalment's number.
    pub number: u32,
    /// Its due date.
    pub due_date: Date,
    /// The missing amount.
    pub missing: Minor,
}

impl Dues {
    /// Returns what is due on `day`, including what falls due on it.
    ///
    /// Interest is paid oldest first, so the interest accrued in the current period is paid last, and all other
    /// interest is past due. From the last due date on, all principal is due.
    pub fn on(
        day: Date,
        policy: &ProductPolicy,
        calendar: &Calendar,
        schedule: &RepaymentSchedule,
        books: &LoanBooks,
    ) -> Result<Self, RuleError> {
        let running = calendar.period(calendar.period_number_at(day));
        let accrued = accrued_in(policy, &running, &books.principal, day.min(books.accrued_to))?;
        let receivable = books.interest_receivable.max(Minor::ZERO);
        let interest_current = accrued.min(receivable);
        let interest_past_due = receivable.checked_sub(interest_current)?;

        let due = schedule.due_by(day);
        let unpaid = unpaid(due, received_by(&books.receipts, day)?)?;
        let missing = Minor::sum(unpaid.iter().map(|instalment| instalment.missing))?;
        let principal_balance = books.principal.on(day);
        let has_matured = due.len() == schedule.rows.len();
        let principal_due = if has_matured { principal_balance } else { missing.checked_sub(interest_past_due)? };

        let deposits = Minor::sum(due.iter().map(|row| row.escrow))?.checked_sub(books.escrow_deposited)?;
        let advanced = books.escrow_balance.checked_neg()?;

        let outstanding = Outstanding {
            fees_due: books.fees_receivable.max(Minor::ZERO),
            interest_past_due,
            interest_current,
            principal_due: principal_due.clamp(Minor::ZERO, principal_balance),
            principal_balance,
            escrow: deposits.max(advanced).max(Minor::ZERO),
            escrow_advance: advanced.max(Minor::ZERO),
            suspense: books.usable_suspense,
        };
        Ok(Self { outstanding, oldest_unpaid: unpaid.first().copied() })
    }
}

/// Returns the total received by the end of `day`.
pub(super) fn received_by(receipts: &[Receipt], day: Date) -> Result<Minor, MoneyError> {
    Minor::sum(receipts.iter().filter(|receipt| receipt.on <= day).map(|receipt| receipt.amount))
}

/// Returns the instalments in `due` that `received` does not fully pay, oldest first.
pub(super) fn unpaid(due: &[Instalment], received: Minor) -> Result<Vec<UnpaidInstalment>, MoneyError> {
    let mut left = received.max(Minor::ZERO);
    let mut unpaid = Vec::new();
    for row in due {
        let paid = left.min(row.payment);
        left = left.checked_sub(paid)?;
        let missing = row.payment.checked_sub(paid)?;
        if missing.is_positive() {
            unpaid.push(UnpaidInstalment { number: row.number, due_date: row.due_date, missing });
        }
    }
    Ok(unpaid)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::product::tests::policy;
    use crate::model::{EscrowPolicy, amortise};
    use jiff::civil::date;

    /// 1,200.00 at 12 % over 12 months from 1 January: 106.62 a month; 12.00 of the first instalment is interest.
    pub(crate) fn loan() -> (ProductPolicy, Calendar, RepaymentSchedule) {
        let escrow = EscrowPolicy { monthly_minor: Minor::new(500), ..EscrowPolicy::default() };
        let policy = ProductPolicy { escrow, ..policy("12", 12) };
        let calendar = Calendar::monthly(date(2024, 1, 1)).unwrap();
        let schedule = amortise(Minor::new(120_000), &policy, &calendar).unwrap();
        (policy, calendar, schedule)
    }

    /// The books of that loan right after funding.
    pub(crate) fn books() -> LoanBooks {
        LoanBooks {
            principal: PrincipalHistory::new([(date(2024, 1, 1), Minor::new(120_000))]).unwrap(),
            interest_receivable: Minor::ZERO,
            accrued_to: date(2024, 1, 1),
            fees_receivable: Minor::ZERO,
            receipts: Vec::new(),
            escrow_deposited: Minor::ZERO,
            escrow_balance: Minor::ZERO,
            suspense: Minor::ZERO,
            usable_suspense: Minor::ZERO,
        }
    }

    fn dues(day: Date, books: &LoanBooks) -> Dues {
        let (policy, calendar, schedule) = loan();
        Dues::on(day, &policy, &calendar, &schedule, books).unwrap()
    }

    fn accrued(to: Date, interest: i64) -> LoanBooks {
        LoanBooks { accrued_to: to, interest_receivable: Minor::new(interest), ..books() }
    }

    #[test]
    fn before_the_first_due_date_only_interest_accrues() {
        let found = dues(date(2024, 1, 16), &accrued(date(2024, 1, 16), 600));
        assert_eq!(found.outstanding.interest_current, Minor::new(600));
        assert_eq!(found.outstanding.interest_past_due, Minor::ZERO);
        assert_eq!(found.outstanding.principal_due, Minor::ZERO);
        assert_eq!(found.outstanding.principal_balance, Minor::new(120_000));
        assert_eq!(found.outstanding.escrow, Minor::ZERO);
        assert_eq!(found.oldest_unpaid, None);
    }

    #[test]
    fn on_its_due_date_an_instalment_is_due_with_its_interest_and_escrow() {
        let found = dues(date(2024, 2, 1), &accrued(date(2024, 2, 1), 1200));
        assert_eq!(found.outstanding.interest_past_due, Minor::new(1200));
        assert_eq!(found.outstanding.interest_current, Minor::ZERO);
        assert_eq!(found.outstanding.principal_due, Minor::new(10_662 - 1200));
        assert_eq!(found.outstanding.escrow, Minor::new(500));
        let unpaid = UnpaidInstalment { number: 1, due_date: date(2024, 2, 1), missing: Minor::new(10_662) };
        assert_eq!(found.oldest_unpaid, Some(unpaid));
    }

    #[test]
    fn interest_of_earlier_periods_is_past_due_and_that_of_the_current_period_is_not() {
        let found = dues(date(2024, 2, 16), &accrued(date(2024, 2, 16), 1800));
        assert_eq!(found.outstanding.interest_past_due, Minor::new(1200));
        assert_eq!(found.outstanding.interest_current, Minor::new(600));
        let not_yet_accrued = dues(date(2024, 2, 16), &accrued(date(2024, 2, 1), 1200));
        assert_eq!(not_yet_accrued.outstanding.interest_past_due, Minor::new(1200));
        assert_eq!(not_yet_accrued.outstanding.interest_current, Minor::ZERO);
    }

    #[test]
    fn an_early_payer_is_not_late_although_some_interest_is_unpaid() {
        // Paid on 30 January: 29 days of interest, 11.60, and 95.02 of principal; then one day's interest on the
        // remainder.
        let day = date(2024, 1, 30);
        let paid = LoanBooks {
            principal: PrincipalHistory::from_changes([
                (date(2024, 1, 1), Minor::new(120_000)),
                (day, Minor::new(-9_502)),
            ])
            .unwrap(),
            receipts: vec![Receipt { on: day, amount: Minor::new(10_662) }],
            escrow_deposited: Minor::new(500),
            escrow_balance: Minor::new(500),
            ..accrued(date(2024, 2, 1), 37)
        };
        let found = dues(date(2024, 2, 1), &paid);
        assert_eq!(found.oldest_unpaid, None);
        assert_eq!(found.outstanding.interest_past_due, Minor::new(37));
        assert_eq!(found.outstanding.principal_due, Minor::ZERO);
        assert_eq!(found.outstanding.escrow, Minor::ZERO);
    }

    #[test]
    fn a_receipt_counts_from_its_day_and_a_returned_one_does_not_count() {
        let receipt = |on, amount| Receipt { on, amount: Minor::new(amount) };
        let mut paid = accrued(date(2024, 2, 10), 1200);
        paid.receipts = vec![receipt(date(2024, 2, 5), 10_000)];
        assert_eq!(dues(date(2024, 2, 4), &paid).oldest_unpaid.unwrap().missing, Minor::new(10_662));
        assert_eq!(dues(date(2024, 2, 5), &paid).oldest_unpaid.unwrap().missing, Minor::new(662));
        paid.receipts.push(receipt(date(2024, 2, 5), -10_000));
        assert_eq!(dues(date(2024, 2, 5), &paid).oldest_unpaid.unwrap().missing, Minor::new(10_662));
    }

    #[test]
    fn from_the_last_due_date_on_everything_is_due() {
        let found = dues(date(2025, 1, 1), &accrued(date(2025, 1, 1), 14_400));
        assert_eq!(found.outstanding.principal_due, Minor::new(120_000));
        assert_eq!(found.outstanding.interest_past_due, Minor::new(14_400));
    }

    #[test]
    fn an_escrow_advance_is_due() {
        let advanced = LoanBooks { escrow_balance: Minor::new(-900), ..books() };
        assert_eq!(dues(date(2024, 1, 5), &advanced).outstanding.escrow, Minor::new(900));
    }
}
