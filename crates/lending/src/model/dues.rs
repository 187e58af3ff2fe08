//! What is due on a day.
//!
//! An instalment counts as paid by the sum that came for it, not by how that was divided: who pays a
//! few days early has paid less interest and more principal than the schedule says, and is not late.
//! Money pays the oldest instalment first.

use super::accrual::accrued_in;
use super::calendar::Calendar;
use super::principal::PrincipalHistory;
use super::product::ProductPolicy;
use super::rule_error::RuleError;
use super::schedule::{Instalment, Schedule};
use super::waterfall::Outstanding;
use jiff::civil::Date;
use onceward_money::{Minor, MoneyError};

/// Money that came for instalments: what was given to interest, principal and late fees or is held for
/// them, but neither escrow nor a prepayment that the borrower asked to go to principal.
///
/// Late fees belong to it: a payment that would have paid its instalment, had it not paid an earlier
/// late fee first, must not cause another one. A returned payment is a receipt below zero on the day
/// of the payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The day from which it counts.
    pub on: Date,
    /// How much.
    pub amount: Minor,
}

/// What the books say of a loan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Books {
    /// What is owed over time.
    pub principal: PrincipalHistory,
    /// Interest that is accrued and not paid.
    pub interest_receivable: Minor,
    /// Up to which day interest is accrued.
    pub accrued_to: Date,
    /// Fees that are charged and not paid.
    pub fees_receivable: Minor,
    /// What came for instalments.
    pub receipts: Vec<Receipt>,
    /// Escrow deposits that have come in all.
    pub escrow_deposited: Minor,
    /// What is held in escrow; negative if the lender has advanced.
    pub escrow_balance: Minor,
    /// What is held in suspense.
    pub suspense: Minor,
}

/// What is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dues {
    /// What a payment on that day can pay.
    pub outstanding: Outstanding,
    /// The oldest instalment that is due and not fully paid.
    pub oldest_unpaid: Option<Unpaid>,
}

/// An instalment that is due and not fully paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unpaid {
    /// Which one.
    pub number: u32,
    /// Since when.
    pub due_date: Date,
    /// What is missing.
    pub lacks: Minor,
}

impl Dues {
    /// What is due on `day`, with what falls due on it.
    ///
    /// Interest is paid oldest first, so what the running period has accrued is paid last, and all other
    /// interest is past due. From the last due date on all principal is due.
    pub fn on(
        day: Date,
        policy: &ProductPolicy,
        calendar: &Calendar,
        schedule: &Schedule,
        books: &Books,
    ) -> Result<Self, RuleError> {
        let running = calendar.period(calendar.period_number_at(day));
        let accrued = accrued_in(policy, &running, &books.principal, day.min(books.accrued_to))?;
        let receivable = books.interest_receivable.max(Minor::ZERO);
        let interest_current = accrued.min(receivable);
        let interest_past_due = receivable.checked_sub(interest_current)?;

        let due = schedule.due_by(day);
        let unpaid = unpaid(due, received_by(&books.receipts, day)?)?;
        let lacks = Minor::sum(unpaid.iter().map(|instalment| instalment.lacks))?;
        let principal_balance = books.principal.on(day);
        let has_matured = due.len() == schedule.rows.len();
        let principal_due = if has_matured { principal_balance } else { lacks.checked_sub(interest_past_due)? };

        let deposits = Minor::sum(due.iter().map(|row| row.escrow))?.checked_sub(books.escrow_deposited)?;
        let advanced = books.escrow_balance.checked_neg()?;

        let outstanding = Outstanding {
            fees_due: books.fees_receivable.max(Minor::ZERO),
            interest_past_due,
            interest_current,
            principal_due: principal_due.clamp(Minor::ZERO, principal_balance),
            principal_balance,
            escrow: deposits.max(advanced).max(Minor::ZERO),
        };
        Ok(Self { outstanding, oldest_unpaid: unpaid.first().copied() })
    }
}

/// What has come by the end of `day`.
pub(super) fn received_by(receipts: &[Receipt], day: Date) -> Result<Minor, MoneyError> {
    Minor::sum(receipts.iter().filter(|receipt| receipt.on <= day).map(|receipt| receipt.amount))
}

/// Which of these instalments `received` does not pay, oldest first.
pub(super) fn unpaid(due: &[Instalment], received: Minor) -> Result<Vec<Unpaid>, MoneyError> {
    let mut left = received.max(Minor::ZERO);
    let mut unpaid = Vec::new();
    for row in due {
        let paid = left.min(row.payment);
        left = left.checked_sub(paid)?;
        let lacks = row.payment.checked_sub(paid)?;
        if lacks.is_positive() {
            unpaid.push(Unpaid { number: row.number, due_date: row.due_date, lacks });
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

    /// 1,200.00 at 12 % over 12 months from 1 January: 106.62 a month, 12.00 of the first is interest.
    pub(crate) fn loan() -> (ProductPolicy, Calendar, Schedule) {
        let escrow = EscrowPolicy { monthly_minor: Minor::new(500), ..EscrowPolicy::default() };
        let policy = ProductPolicy { escrow, ..policy("12", 12) };
        let calendar = Calendar::monthly(date(2024, 1, 1)).unwrap();
        let schedule = amortise(Minor::new(120_000), &policy, &calendar).unwrap();
        (policy, calendar, schedule)
    }

    /// The books of that loan when it was funded.
    pub(crate) fn books() -> Books {
        Books {
            principal: PrincipalHistory::new([(date(2024, 1, 1), Minor::new(120_000))]).unwrap(),
            interest_receivable: Minor::ZERO,
            accrued_to: date(2024, 1, 1),
            fees_receivable: Minor::ZERO,
            receipts: Vec::new(),
            escrow_deposited: Minor::ZERO,
            escrow_balance: Minor::ZERO,
            suspense: Minor::ZERO,
        }
    }

    fn dues(day: Date, books: &Books) -> Dues {
        let (policy, calendar, schedule) = loan();
        Dues::on(day, &policy, &calendar, &schedule, books).unwrap()
    }

    fn accrued(to: Date, interest: i64) -> Books {
        Books { accrued_to: to, interest_receivable: Minor::new(interest), ..books() }
    }

    #[test]
    fn before_the_first_due_date_only_interest_runs() {
        let found = dues(date(2024, 1, 16), &accrued(date(2024, 1, 16), 600));
        assert_eq!(found.outstanding.interest_current, Minor::new(600));
        assert_eq!(found.outstanding.interest_past_due, Minor::ZERO);
        assert_eq!(found.outstanding.principal_due, Minor::ZERO);
        assert_eq!(found.outstanding.principal_balance, Minor::new(120_000));
        assert_eq!(found.outstanding.escrow, Minor::ZERO);
        assert_eq!(found.oldest_unpaid, None);
    }

    #[test]
    fn on_its_day_an_instalment_is_due_with_its_interest_and_escrow() {
        let found = dues(date(2024, 2, 1), &accrued(date(2024, 2, 1), 1200));
        assert_eq!(found.outstanding.interest_past_due, Minor::new(1200));
        assert_eq!(found.outstanding.interest_current, Minor::ZERO);
        assert_eq!(found.outstanding.principal_due, Minor::new(10_662 - 1200));
        assert_eq!(found.outstanding.escrow, Minor::new(500));
        let unpaid = Unpaid { number: 1, due_date: date(2024, 2, 1), lacks: Minor::new(10_662) };
        assert_eq!(found.oldest_unpaid, Some(unpaid));
    }

    #[test]
    fn older_interest_is_past_due_and_that_of_the_running_period_is_not() {
        let found = dues(date(2024, 2, 16), &accrued(date(2024, 2, 16), 1800));
        assert_eq!(found.outstanding.interest_past_due, Minor::new(1200));
        assert_eq!(found.outstanding.interest_current, Minor::new(600));
        let not_yet_accrued = dues(date(2024, 2, 16), &accrued(date(2024, 2, 1), 1200));
        assert_eq!(not_yet_accrued.outstanding.interest_past_due, Minor::new(1200));
        assert_eq!(not_yet_accrued.outstanding.interest_current, Minor::ZERO);
    }

    #[test]
    fn who_pays_early_is_not_late_though_a_little_interest_is_left() {
        // Paid on 30 January: 29 days of interest, 11.60, and 95.02 of principal; then one day on what is left.
        let day = date(2024, 1, 30);
        let paid = Books {
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
    fn a_receipt_counts_from_its_day_and_a_returned_one_not_at_all() {
        let receipt = |on, amount| Receipt { on, amount: Minor::new(amount) };
        let mut paid = accrued(date(2024, 2, 10), 1200);
        paid.receipts = vec![receipt(date(2024, 2, 5), 10_000)];
        assert_eq!(dues(date(2024, 2, 4), &paid).oldest_unpaid.unwrap().lacks, Minor::new(10_662));
        assert_eq!(dues(date(2024, 2, 5), &paid).oldest_unpaid.unwrap().lacks, Minor::new(662));
        paid.receipts.push(receipt(date(2024, 2, 5), -10_000));
        assert_eq!(dues(date(2024, 2, 5), &paid).oldest_unpaid.unwrap().lacks, Minor::new(10_662));
    }

    #[test]
    fn from_the_last_due_date_on_everything_is_due() {
        let found = dues(date(2025, 1, 1), &accrued(date(2025, 1, 1), 14_400));
        assert_eq!(found.outstanding.principal_due, Minor::new(120_000));
        assert_eq!(found.outstanding.interest_past_due, Minor::new(14_400));
    }

    #[test]
    fn what_the_lender_advanced_for_escrow_is_due() {
        let advanced = Books { escrow_balance: Minor::new(-900), ..books() };
        assert_eq!(dues(date(2024, 1, 5), &advanced).outstanding.escrow, Minor::new(900));
    }
}
