//! Exact numbers: fractions of integers of unlimited size.
//!
//! A decimal of 28 digits is not enough: (1 + r)^600 at 100 % a year has 21 digits before the decimal point, and an
//! instalment depends on digits far after it.

use super::day_count::YearFraction;
use num_bigint::BigInt;
use num_rational::BigRational;
use onceward_money::{Minor, Rate};

/// An exact fraction.
pub(super) type Exact = BigRational;

/// Converts an amount in minor units.
pub(super) fn amount(minor: Minor) -> Exact {
    Exact::from_integer(BigInt::from(minor.get()))
}

/// Converts a rate to a fraction of 1.
pub(super) fn rate(rate: Rate) -> Exact {
    let decimal = rate.fraction();
    Exact::new(BigInt::from(decimal.mantissa()), BigInt::from(10).pow(decimal.scale()))
}

/// Converts a fraction of a year.
pub(super) fn years(years: YearFraction) -> Exact {
    Exact::new(BigInt::from(*years.numer()), BigInt::from(*years.denom()))
}
