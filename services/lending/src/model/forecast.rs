//! The state of the books on a future day, if nothing but the scheduled events happens until then.
//!
//! Interest accrues, late fees are charged, and suspense pays what falls due, in the same order as in the daily run
//! and in the posting of a payment. A payment posted on that day therefore finds these books.

use super::accrual::accruals;
use super::calendar::Calendar;
use super::dues::{Dues, LoanBooks};
use super::product::ProductPolicy;
use super::rule_error::RuleError;
use super::schedule::RepaymentSchedule;
use super::status::PaymentRule;
use super::status_history::StatusHistory;
use super::waterfall::allocate_held;
use jiff::civil::Date;
use onceward_money::Minor;

/// Everything that a loan's daily servicing depends on.
#[derive(Debug, Clone)]
pub struct Forecast<'l> {
    /// The terms in force.
    pub policy: &'l ProductPolicy,
    /// The due dates.
    pub calendar: &'l Calendar,
    /// The schedule in force.
    pub schedule: &'l RepaymentSchedule,
    /// The loan's status on each day; the last status persists.
    pub statuses: &'l StatusHistory,
    /// Instalments whose late fee is booked.
    pub charged: Vec<u32>,
    /// The day up to and including which suspense has been applied to what fell due.
    pub suspense_applied_to: Date,
}

impl Forecast<'_> {
    /// Returns the books on `day`, before that day's payments. From the day on which nothing is owed they no longer
    /// change.
    pub fn books_on(mut self, mut books: LoanBooks, day: Date) -> Result<LoanBooks, RuleError> {
        let numbers = self.calendar.period_number_at(self.suspense_applied_to)..self.calendar.period_number_at(day);
        for number in numbers {
            if !books.usable_suspense.is_positive() {
                break;
            }
            let on = self.calendar.due_date(number).max(books.accrued_to);
            self.book(&mut books, on)?;
            if self.statuses.on(on).payment_rule() == PaymentRule::Apply {
                self.apply_suspense(&mut books, on)?;
            }
            if !books.owes_on(on) {
                return Ok(books);
            }
        }
        self.book(&mut books, day)?;
        Ok(books)
    }

    /// Books interest and late fees up to `day`.
    fn book(&mut self, books: &mut LoanBooks, day: Date) -> Result<(), RuleError> {
        let bearing = books.principal.while_accruing(self.statuses);
        let accrued = accruals(self.policy, self.calendar, &bearing, books.accrued_to, day)?;
        let accrued = Minor::sum(accrued.iter().map(|accrual| accrual.amount))?;
        books.interest_receivable = books.interest_receivable.checked_add(accrued)?;
        books.accrued_to = books.accrued_to.max(day);
        let late_fee = &self.policy.late_fee;
        let changes = late_fee.changes(day, self.schedule, &books.receipts, self.statuses, &self.charged)?;
        books.fees_receivable = books.fees_receivable.checked_add(late_fee.net(&changes, self.schedule)?)?;
        self.charged.retain(|number| !changes.withdraw.contains(number));
        self.charged.extend(changes.charge.iter().map(|fee| fee.instalment));
        Ok(())
    }

    fn apply_suspense(&self, books: &mut LoanBooks, day: Date) -> Result<(), RuleError> {
        let unpaid = books.clone().without_suspense(day)?;
        let owed = Dues::on(day, self.policy, self.calendar, self.schedule, &unpaid)?.outstanding;
        for part in allocate_held(books.usable_suspense, self.policy, &owed)? {
            books.apply_from_suspense(&part, day)?;
        }
        Ok(())
    }
}
