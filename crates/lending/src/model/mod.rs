//! The rules of a loan: types and pure functions. No clock, no database, no floats.
//!
//! Reading order: a [`product`] is the policy that a loan is made by and keeps; a [`calendar`] gives
//! its due dates; a [`schedule`] is what borrower and lender agreed on. From then on [`principal`]
//! is what is really owed over time, [`accrual`] the interest on it, [`dues`] what is due on a day,
//! and a [`waterfall`] divides what is paid. [`late_fee`], [`payoff`], [`escrow`] and [`status`]
//! stand beside these.
//!
//! Days are boundaries: interest of `[from, to)` runs from the morning of `from` to the morning of
//! `to`, and money that arrives on a day has paid from that day on. A whole schedule period is
//! `[due date, next due date)`.
//!
//! Invariant: amounts are computed exactly (as fractions of whole numbers) and rounded once, at the
//! place that [`rounding`] says.

pub mod accrual;
pub mod calendar;
pub mod day_count;
pub mod dues;
pub mod escrow;
mod exact;
pub mod late_fee;
mod level_payment;
pub mod payoff;
pub mod principal;
pub mod product;
#[cfg(test)]
mod properties;
pub mod rounding;
mod rule_error;
pub mod schedule;
pub mod status;
pub mod waterfall;

pub use accrual::{Accrual, accruals, accrued_in, per_diem};
pub use calendar::{Calendar, Period};
pub use day_count::DayCount;
pub use dues::{Books, Dues, Receipt, Unpaid};
pub use escrow::EscrowPolicy;
pub use late_fee::{LateCharge, LateFee, LateFeeChanges, LateFeePolicy};
pub use payoff::PayoffQuote;
pub use principal::PrincipalHistory;
pub use product::{Prepayment, ProductPolicy};
pub use rounding::{Rounding, RoundingMode};
pub use rule_error::RuleError;
pub use schedule::{Instalment, Schedule, amortise};
pub use status::{LoanStatus, PaymentRule};
pub use waterfall::{Allocation, Bucket, Hints, Outstanding, Waterfall, allocate};
