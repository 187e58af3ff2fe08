//! Rounding of fractions of a cent.
//!
//! The instalment is rounded once, to a multiple of the product's unit. Interest is rounded once per
//! period, always to the minor unit, so that a loan with instalments in whole dollars still owes its cents.

use super::exact::Exact;
use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{Signed, ToPrimitive, Zero};
use onceward_money::{Minor, MoneyError};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// A product's rounding policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rounding {
    /// Instalments are multiples of this; 100 for whole dollars, 1 for cents.
    pub unit_minor: Minor,
    /// The direction of rounding.
    pub mode: RoundingMode,
}

/// The choice between the two multiples next to a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoundingMode {
    /// The nearest; on a tie, the even one.
    HalfEven,
    /// The nearest; on a tie, the one further from zero.
    HalfUp,
    /// Away from zero.
    Up,
    /// Towards zero.
    Down,
}

impl Default for Rounding {
    fn default() -> Self {
        Self { unit_minor: Minor::new(1), mode: RoundingMode::HalfUp }
    }
}

impl Rounding {
    pub(super) fn instalment(self, exact: &Exact) -> Result<Minor, MoneyError> {
        let units = self.mode.whole(&Exact::new_raw(exact.numer().clone(), exact.denom() * self.unit_minor.get()));
        fit(&(units * self.unit_minor.get()))
    }

    pub(super) fn interest(self, exact: &Exact) -> Result<Minor, MoneyError> {
        self.mode.minor(exact)
    }
}

impl RoundingMode {
    pub(super) fn minor(self, exact: &Exact) -> Result<Minor, MoneyError> {
        fit(&self.whole(exact))
    }

    fn whole(self, exact: &Exact) -> BigInt {
        let (towards_zero, rest) = exact.numer().div_rem(exact.denom());
        let further = match self {
            Self::Up => !rest.is_zero(),
            Self::Down => false,
            Self::HalfUp => half(&rest, exact.denom()).is_ge(),
            Self::HalfEven => match half(&rest, exact.denom()) {
                Ordering::Equal => towards_zero.is_odd(),
                other => other.is_gt(),
            },
        };
        if further { towards_zero + exact.numer().signum() } else { towards_zero }
    }
}

/// Compares the remainder with one half.
fn half(rest: &BigInt, denominator: &BigInt) -> Ordering {
    BigInt::cmp(&(rest.abs() * 2), denominator)
}

fn fit(whole: &BigInt) -> Result<Minor, MoneyError> {
    whole.to_i64().map(Minor::new).ok_or(MoneyError::Overflow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use RoundingMode::{Down, HalfEven, HalfUp, Up};

    fn check(mode: RoundingMode, expected: [i64; 7]) {
        let quarters = [2, 5, 6, 7, 8, -6, -5].map(|n: i64| Exact::new(n.into(), 4.into()));
        let found = quarters.map(|exact| mode.minor(&exact).unwrap().get());
        assert_eq!(found, expected, "{mode:?} of 0.5, 1.25, 1.5, 1.75, 2, -1.5, -1.25");
    }

    #[test]
    fn each_mode_rounds_in_its_direction() {
        check(HalfEven, [0, 1, 2, 2, 2, -2, -1]);
        check(HalfUp, [1, 1, 2, 2, 2, -2, -1]);
        check(Up, [1, 2, 2, 2, 2, -2, -2]);
        check(Down, [0, 1, 1, 1, 2, -1, -1]);
    }

    #[test]
    fn instalments_are_multiples_of_the_unit_and_interest_is_not() {
        let exact = Exact::new(50_001.into(), 3.into());
        let whole = Rounding { unit_minor: Minor::new(100), mode: HalfUp };
        assert_eq!(whole.instalment(&exact), Ok(Minor::new(16_700)));
        assert_eq!(whole.interest(&exact), Ok(Minor::new(16_667)));
    }

    #[test]
    fn an_overflow_is_an_error() {
        let exact = Exact::from_integer(BigInt::from(i64::MAX) + 1);
        assert_eq!(HalfUp.minor(&exact), Err(MoneyError::Overflow));
    }
}
