//! The level payment: the equal instalment that repays a loan.

use super::exact::{self, Exact};
use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Zero};
use onceward_money::Minor;

/// Returns the payment at the end of each period that reduces `principal` to exactly zero, before rounding.
///
/// `rates` are the rates of the periods, which may differ: with actual days, a March costs more than a February. With
/// equal rates this is the annuity formula.
pub(super) fn level_payment(principal: Minor, rates: &[Exact]) -> Exact {
    if rates.iter().all(Zero::is_zero) {
        return exact::amount(principal) / BigInt::from(rates.len());
    }
    // Every 1 + r is growth/common. The debt at the end without any payment is principal × Π growth/common; payments
    // of 1 have grown to ones/common^(n-1) by then. These are integers, so no fraction is reduced on the way.
    let common = rates.iter().fold(BigInt::one(), |common, rate| common.lcm(rate.denom()));
    let (mut owed, mut ones, mut power) = (BigInt::one(), BigInt::zero(), BigInt::one());
    for rate in rates {
        let growth = &common + rate.numer() * (&common / rate.denom());
        owed *= &growth;
        ones = ones * growth + &power;
        power *= &common;
    }
    // Reducing numbers of this length takes longer than everything above, and rounding does not need it.
    Exact::new_raw(owed * principal.get(), ones * common)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rounding::RoundingMode;

    fn check(principal_minor: i64, yearly: (i64, i64), months: usize, expected_minor: i64) {
        let monthly = Exact::new(yearly.0.into(), (yearly.1 * 12).into());
        let exact = level_payment(Minor::new(principal_minor), &vec![monthly; months]);
        assert_eq!(RoundingMode::HalfUp.minor(&exact), Ok(Minor::new(expected_minor)));
    }

    #[test]
    fn equal_rates_give_the_annuity() {
        check(20_000_000, (75, 1000), 180, 185_402);
        check(16_200_000, (3875, 100_000), 360, 76_178);
    }

    #[test]
    fn a_rate_of_zero_gives_equal_parts() {
        check(100_000, (0, 1), 6, 16_667);
    }

    #[test]
    fn long_terms_and_high_rates_keep_every_cent() {
        // (1 + 1/12)^480 has 17 digits: the instalment is the interest and a little more, never less.
        check(20_000_000, (1, 1), 480, 1_666_667);
        check(20_000_000, (1, 1), 600, 1_666_667);
        check(9_000_000_000_000_000_000, (1, 1), 600, 750_000_000_000_000_000);
        check(20_000_000, (1, 2), 360, 833_334);
        check(9_000_000_000_000_000_000, (123_456_789, 1_000_000_000), 480, 93_278_195_496_430_506);
    }

    #[test]
    fn the_payment_repays_exactly() {
        let rates: Vec<Exact> = (28_i64..=31).map(|days| Exact::new((days * 7).into(), 36_500.into())).collect();
        let principal = Minor::new(123_456);
        let payment = level_payment(principal, &rates);
        let left = rates.iter().fold(exact::amount(principal), |left, rate| left * (Exact::one() + rate) - &payment);
        assert!(left.is_zero());
    }
}
