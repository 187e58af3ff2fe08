//! The rules of a loan: types and pure functions. They use no clock, no database and no floats.
//!
//! Reading order: a [`product`] is the policy that a loan is created from and keeps; a [`calendar`] defines its due
//! dates; a [`schedule`] is what borrower and lender agreed on. From then on [`principal`] is the actual debt over
//! time, [`accrual`] the interest on it, [`dues`] the amounts due on a day, and a [`waterfall`] divides payments.
//! [`late_fee`], [`payoff`], [`escrow`], [`status`] and [`status_history`] complete them.
//!
//! Days are boundaries: interest of `[from, to)` runs from the morning of `from` to the morning of `to`, and money
//! that arrives on a day counts from that day on. A whole schedule period is `[due date, next due date)`.
//!
//! Invariant: amounts are computed exactly (as fractions of integers) and rounded once, where [`rounding`] defines it.

pub mod accrual;
pub mod calendar;
pub mod day_count;
mod division;
pub mod dues;
pub mod escrow;
mod exact;
pub mod forecast;
pub mod late_fee;
mod level_payment;
pub mod payoff;
pub mod principal;
pub mod product;
#[cfg(test)]
pub(crate) mod properties;
pub mod rounding;
mod rule_error;
pub mod schedule;
pub mod status;
pub mod status_history;
pub mod waterfall;

pub use accrual::{Accrual, accruals, accrued_in, per_diem};
pub use calendar::{Calendar, Period};
pub use day_count::DayCount;
pub use dues::{Dues, LoanBooks, Receipt, UnpaidInstalment};
pub use escrow::EscrowPolicy;
pub use forecast::Forecast;
pub use late_fee::{LateCharge, LateFee, LateFeeChanges, LateFeePolicy};
pub use payoff::PayoffQuote;
pub use principal::PrincipalHistory;
pub use product::{Prepayment, ProductPolicy};
pub use rounding::{Rounding, RoundingMode};
pub use rule_error::RuleError;
pub use schedule::{Instalment, RepaymentSchedule, amortise};
pub use status::{LoanStatus, PaymentRule};
pub use status_history::StatusHistory;
pub use waterfall::{
    Allocation, AllocationHints, Outstanding, PaymentBucket, Waterfall, allocate, allocate_held, hold,
};
