//! Why a rule refuses.

use super::status::LoanStatus;
use super::waterfall::Bucket;
use jiff::civil::Date;
use onceward_money::{Minor, MoneyError};

/// What is wrong with terms, a calendar, a policy or a request. Each says what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The product has no usable code.
    #[error("a product code is 1 to 64 letters, digits, `.`, `_` or `-`: choose another")]
    ProductCode,
    /// The rate is above 100 %.
    #[error("the annual rate {0} is above 1 (100 %): give it as a fraction, 0.075 for 7.5 %")]
    RateTooHigh(onceward_money::Rate),
    /// The term is out of range.
    #[error("a term of {0} months is not possible: choose 1 to 600 months")]
    Term(u32),
    /// The rounding unit is not positive.
    #[error("instalments cannot be rounded to multiples of {0}: give a unit of 1 or more minor units")]
    RoundingUnit(Minor),
    /// The waterfall leaves out a bucket.
    #[error("the waterfall never pays `{0}`: name it once")]
    WaterfallMissing(Bucket),
    /// The waterfall names a bucket twice.
    #[error("the waterfall names `{0}` twice: name it once")]
    WaterfallTwice(Bucket),
    /// The waterfall goes on behind `future`.
    #[error("`future` takes all that is left: name it last in the waterfall, or leave it out")]
    WaterfallFuture,
    /// The late fee is none.
    #[error("a late fee is a positive amount, or a share of the instalment above 0 and up to 1 with a positive cap")]
    LateFee,
    /// The grace is longer than a year.
    #[error("{0} days of grace are too many: choose 0 to 365")]
    Grace(u32),
    /// An escrow amount is negative.
    #[error("escrow amounts cannot be negative: give 0 for none")]
    EscrowPolicy,
    /// The principal is not positive.
    #[error("a principal of {0} cannot be lent: give an amount above 0 in minor units")]
    Principal(Minor),
    /// The funding day is out of range.
    #[error("a loan cannot be funded on {0}: choose a day from 1900 to 2199")]
    FundingDay(Date),
    /// The first due date does not follow the funding day.
    #[error("the first due date {first_due} must be after the funding day {funded_on} and within a year of it")]
    FirstDue {
        /// When the loan is funded.
        funded_on: Date,
        /// The date that was asked for.
        first_due: Date,
    },
    /// The due day does not agree with the first due date.
    #[error("due day {due_day} does not give {first_due}: choose that date's day, or 29 to 31 for a month's end")]
    DueDay {
        /// The day of the month that was asked for.
        due_day: i8,
        /// The first due date.
        first_due: Date,
    },
    /// The instalment is nothing.
    #[error("the instalment rounds to nothing in units of {unit}: choose a smaller unit, or a shorter term")]
    InstalmentRoundsToNothing {
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
        /// Which period.
        number: u32,
    },
    /// The principal is below zero on a day.
    #[error("the principal is negative from {0} on: correct the postings of that day first")]
    NegativePrincipal(Date),
    /// A payment is not positive.
    #[error("a payment of {0} cannot be divided: give an amount above 0")]
    PaymentAmount(Minor),
    /// A payoff is asked for a day that is gone.
    #[error("interest is already accrued to {accrued_to}: ask for a payoff on that day or later, not {good_through}")]
    PayoffDay {
        /// The day that was asked for.
        good_through: Date,
        /// Up to which interest is accrued.
        accrued_to: Date,
    },
    /// The status cannot follow.
    #[error("a loan that is {from} cannot become {to}{}", options(*.from))]
    Transition {
        /// What it is.
        from: LoanStatus,
        /// What was asked for.
        to: LoanStatus,
    },
    /// The text is no status.
    #[error(
        "no such loan status: choose created, active, in_modification, bankruptcy, paid_off, charged_off or closed"
    )]
    UnknownStatus,
    /// Escrow does not cover a disbursement.
    #[error("escrow holds {balance} and may go down to {floor}: {amount} cannot be paid out of it")]
    EscrowShort {
        /// What is held for the borrower; negative if the lender has advanced.
        balance: Minor,
        /// What was to be paid out.
        amount: Minor,
        /// The least that the policy allows.
        floor: Minor,
    },
    /// An amount does not fit.
    #[error(transparent)]
    Money(#[from] MoneyError),
}

fn options(from: LoanStatus) -> String {
    let next: Vec<&str> = from.next().iter().map(|status| status.as_str()).collect();
    if next.is_empty() { ": that is final".to_owned() } else { format!(": choose {}", next.join(", ")) }
}
