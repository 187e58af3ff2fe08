//! The payoff quote: the amount that ends a loan.
//!
//! It consists of principal, interest up to the day on which the money arrives, fees including those charged until
//! then, and the lender's escrow advance, less suspense, which the waterfall uses when the total arrives. Money in
//! escrow is the borrower's: it is not set off but returned when the loan is paid off.

use super::accrual::{accruals, per_diem};
use super::calendar::Calendar;
use super::dues::LoanBooks;
use super::product::ProductPolicy;
use super::rule_error::RuleError;
use jiff::civil::Date;
use onceward_money::Minor;
use serde::Serialize;

/// A payoff offer: `total`, paid on `good_through`, ends the loan, provided nothing else is posted until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PayoffQuote {
    /// The last day on which the money may arrive.
    pub good_through: Date,
    /// The first day whose interest is not in the quote: the day on which the money arrives.
    pub interest_to: Date,
    /// The principal owed.
    #[serde(rename = "principal_minor")]
    pub principal: Minor,
    /// Unpaid interest up to that day.
    #[serde(rename = "interest_minor")]
    pub interest: Minor,
    /// Unpaid fees.
    #[serde(rename = "fees_minor")]
    pub fees: Minor,
    /// The lender's escrow advance.
    #[serde(rename = "escrow_advance_minor")]
    pub escrow_advance: Minor,
    /// The suspense that is deducted; negative if refunded money has to be repaid.
    #[serde(rename = "suspense_minor")]
    pub suspense: Minor,
    /// The amount to pay; never negative.
    #[serde(rename = "total_minor")]
    pub total: Minor,
    /// The cost of each day after `good_through`, rounded.
    #[serde(rename = "per_diem_minor")]
    pub per_diem: Minor,
    /// The amount returned to the borrower afterwards: escrow, and suspense beyond the debt.
    #[serde(rename = "refund_minor")]
    pub refund: Minor,
}

impl PayoffQuote {
    /// Creates the quote for money that arrives on `good_through`, which must not precede the day the books are
    /// accrued to. Everything besides interest that happens until then must be in the books: see
    /// [`Forecast`](super::Forecast).
    pub fn new(
        policy: &ProductPolicy,
        calendar: &Calendar,
        books: &LoanBooks,
        good_through: Date,
    ) -> Result<Self, RuleError> {
        let accrued_to = books.accrued_to;
        if good_through < accrued_to {
            return Err(RuleError::PayoffDay { good_through, accrued_to });
        }
        let principal = books.principal.on(good_through);
        let to_come = accruals(policy, calendar, &books.principal, accrued_to, good_through)?;
        let unposted = to_come.iter().map(|accrual| accrual.amount);
        // As in the waterfall, negative amounts count as zero.
        let interest = Minor::sum(unposted.chain([books.interest_receivable]))?.max(Minor::ZERO);
        let fees = books.fees_receivable.max(Minor::ZERO);
        let escrow_advance = books.escrow_balance.checked_neg()?.max(Minor::ZERO);
        let debt = Minor::sum([principal, interest, fees, escrow_advance])?;
        let suspense = books.usable_suspense.min(debt);
        Ok(Self {
            good_through,
            interest_to: good_through,
            principal,
            interest,
            fees,
            escrow_advance,
            suspense,
            total: debt.checked_sub(suspense)?,
            per_diem: per_diem(policy, principal, good_through)?,
            refund: Minor::sum([books.escrow_balance.max(Minor::ZERO), books.usable_suspense.checked_sub(suspense)?])?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::dues::tests::{books, loan};
    use jiff::civil::date;

    fn quote(books: &LoanBooks, day: Date) -> Result<PayoffQuote, RuleError> {
        let (policy, calendar, _) = loan();
        PayoffQuote::new(&policy, &calendar, books, day)
    }

    #[test]
    fn a_quote_is_principal_interest_and_fees_less_suspense() {
        let books = LoanBooks {
            accrued_to: date(2024, 2, 1),
            interest_receivable: Minor::new(1200),
            fees_receivable: Minor::new(2500),
            suspense: Minor::new(3000),
            usable_suspense: Minor::new(3000),
            escrow_balance: Minor::new(700),
            ..books()
        };
        let found = quote(&books, date(2024, 2, 11)).unwrap();
        assert_eq!(found.interest, Minor::new(1200 + 400), "ten days of 0.40 more");
        assert_eq!(found.total, Minor::new(120_000 + 1600 + 2500 - 3000));
        assert_eq!(found.per_diem, Minor::new(40));
        assert_eq!(found.interest_to, date(2024, 2, 11));
        assert_eq!(found.refund, Minor::new(700), "escrow is refunded and not set off");
    }

    #[test]
    fn a_day_later_costs_the_per_diem() {
        let [today, tomorrow] = [5, 6].map(|day| quote(&books(), date(2024, 1, day)).unwrap());
        assert_eq!(tomorrow.total, today.total.checked_add(today.per_diem).unwrap());
        let funding_day = quote(&books(), date(2024, 1, 1)).unwrap();
        assert_eq!(funding_day.total, Minor::new(120_000), "no day, no interest");
    }

    #[test]
    fn an_escrow_advance_is_owed_and_excess_suspense_is_refunded() {
        let advanced = LoanBooks { escrow_balance: Minor::new(-900), ..books() };
        assert_eq!(quote(&advanced, date(2024, 1, 1)).unwrap().total, Minor::new(120_900));
        let rich = LoanBooks { usable_suspense: Minor::new(130_000), ..books() };
        let found = quote(&rich, date(2024, 1, 1)).unwrap();
        assert_eq!((found.total, found.refund), (Minor::ZERO, Minor::new(10_000)));
    }

    #[test]
    fn a_day_before_the_accrual_date_is_rejected() {
        let books = LoanBooks { accrued_to: date(2024, 2, 1), ..books() };
        let refused = quote(&books, date(2024, 1, 31)).unwrap_err();
        assert!(refused.to_string().contains("on that day or later"), "{refused}");
    }
}
