//! The refusals of the rules.

use super::status::LoanStatus;
use super::waterfall::PaymentBucket;
use jiff::civil::Date;
use onceward_money::{Minor, MoneyError};

/// An error in terms, a calendar, a policy or a request. Each message states what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The product code is not valid.
    #[error("a product code is 1 to 64 letters, digits, `.`, `_` or `-`: use another code")]
    ProductCode,
    /// The rate is above 100 %.
    #[error("the annual rate {0} is above 1 (100 %): use a fraction, such as 0.075 for 7.5 %")]
    RateTooHigh(onceward_money::Rate),
    /// The term is out of range.
    #[error("a term of {0} months is not possible: choose 1 to 600 months")]
    Term(u32),
    /// The rounding unit is not positive.
    #[error("instalments cannot be rounded to multiples of {0}: use a unit of 1 or more minor units")]
    RoundingUnit(Minor),
    /// The waterfall leaves out a bucket.
    #[error("the waterfall never pays `{0}`: list it once")]
    WaterfallMissing(PaymentBucket),
    /// The waterfall lists a bucket twice.
    #[error("the waterfall lists `{0}` twice: list it once")]
    WaterfallTwice(PaymentBucket),
    /// The waterfall continues after `future`.
    #[error("`future` takes everything that is left: list it last in the waterfall, or omit it")]
    WaterfallFuture,
    /// The late fee is not valid.
    #[error("a late fee is a positive amount, or a share of the instalment above 0 and up to 1 with a positive cap")]
    LateFee,
    /// The grace is longer than a year.
    #[error("{0} days of grace are too many: choose 0 to 365")]
    Grace(u32),
    /// An escrow amount is negative.
    #[error("escrow amounts cannot be negative: use 0 for none")]
    EscrowPolicy,
    /// The principal is not positive.
    #[error("a principal of {0} cannot be lent: use an amount greater than 0, in minor units")]
    Principal(Minor),
    /// The funding day is out of range.
    #[error("a loan cannot be funded on {0}: choose a day from 1900 to 2199")]
    FundingDay(Date),
    /// The first due date does not follow the funding day.
    #[error("the first due date {first_due} must be after the funding day {funded_on} and within a year of it")]
    FirstDue {
        /// The funding day.
        funded_on: Date,
        /// The requested date.
        first_due: Date,
    },
    /// The due day does not agree with the first due date.
    #[error("due day {due_day} does not match {first_due}: choose that date's day, or 29 to 31 for a month's end")]
    DueDay {
        /// The requested day of the month.
        due_day: i8,
        /// The first due date.
        first_due: Date,
    },
    /// The instalment rounds to zero.
    #[error("the instalment rounds to zero in units of {unit}: choose a smaller unit, or a shorter term")]
    InstalmentRoundsToZero {
        /// The rounding unit.
        unit: Minor,
    },
    /// An instalment would not pay its own interest.
    #[error(
        "the instalment {instalment} does not pay the interest {interest} of period {number}, so the debt would grow: \
         choose a smaller rounding unit, or an earlier first due date"
    )]
    NegativeAmortisation {
        /// The regular instalment.
        instalment: Minor,
        /// The interest of that period.
        interest: Minor,
        /// The period's number.
        number: u32,
    },
    /// The principal is negative on a day.
    #[error("the principal is negative from {0} on: correct the postings of that day first")]
    NegativePrincipal(Date),
    /// A payment is not positive.
    #[error("a payment of {0} cannot be divided: use an amount greater than 0")]
    PaymentAmount(Minor),
    /// The requested payoff day is before the day up to which interest is accrued.
    #[error("interest is already accrued to {accrued_to}: request a payoff on that day or later, not {good_through}")]
    PayoffDay {
        /// The requested day.
        good_through: Date,
        /// The day up to which interest is accrued.
        accrued_to: Date,
    },
    /// The status transition is not allowed.
    #[error("a loan that is {from} cannot become {to}{}", options(*.from))]
    Transition {
        /// The current status.
        from: LoanStatus,
        /// The requested status.
        to: LoanStatus,
    },
    /// The text is not a loan status.
    #[error(
        "unknown loan status: choose created, active, in_modification, bankruptcy, paid_off, charged_off or closed"
    )]
    UnknownStatus,
    /// Escrow does not cover a disbursement.
    #[error("escrow holds {balance} and may go down to {floor}: {amount} cannot be paid out of it")]
    EscrowShort {
        /// The balance held for the borrower; negative if the lender has advanced.
        balance: Minor,
        /// The amount to be paid out.
        amount: Minor,
        /// The lowest balance that the policy allows.
        floor: Minor,
    },
    /// An amount is out of range.
    #[error(transparent)]
    Money(#[from] MoneyError),
}

fn options(from: LoanStatus) -> String {
    let next: Vec<&str> = from.next().iter().map(|status| status.as_str()).collect();
    if next.is_empty() { ": its status is final".to_owned() } else { format!(": choose {}", next.join(", ")) }
}
