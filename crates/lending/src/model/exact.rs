//! Exact numbers: fractions of whole numbers without a limit.
//!
//! A decimal of 28 digits is not enough: (1 + r)^600 at 100 % a year has 21 digits before the point,
//! and an instalment depends on those far behind it.

use super::day_count::YearFraction;
use num_bigint::BigInt;
use num_rational::BigRational;
use onceward_money::{Minor, Rate};

/// A fraction.
pub(super) type Exact = BigRational;

/// So many minor units.
pub(super) fn amount(minor: Minor) -> Exact {
    Exact::from_integer(BigInt::from(minor.get()))
}

/// A rate as a fraction of 1.
pub(super) fn rate(rate: Rate) -> Exact {
    let decimal = rate.fraction();
    Exact::new(BigInt::from(decimal.mantissa()), BigInt::from(10).pow(decimal.scale()))
}

/// So many years.
pub(super) fn years(years: YearFraction) -> Exact {
    Exact::new(BigInt::from(*years.numer()), BigInt::from(*years.denom()))
}
