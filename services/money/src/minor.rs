//! An amount in minor units.

use crate::{Currency, Decimal, MoneyError};
use bytes::BytesMut;
use postgres_types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, error::Error, fmt, str::FromStr};

/// An amount in the smallest unit of its currency: cents for USD. Arithmetic that overflows is an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minor(i64);

impl Minor {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// The largest amount.
    pub const MAX: Self = Self(i64::MAX);
    /// The smallest amount; it has no counterpart, so negating it is an error.
    pub const MIN: Self = Self(i64::MIN);

    /// Creates an amount of `units` in the smallest unit.
    pub const fn new(units: i64) -> Self {
        Self(units)
    }

    /// Returns the number of smallest units.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Returns whether the amount is greater than zero.
    pub const fn is_positive(self) -> bool {
        self.0 > 0
    }

    /// Returns whether the amount is less than zero.
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Returns whether the amount is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns `self + other`.
    pub fn checked_add(self, other: Self) -> Result<Self, MoneyError> {
        self.0.checked_add(other.0).map(Self).ok_or(MoneyError::Overflow)
    }

    /// Returns `self - other`.
    pub fn checked_sub(self, other: Self) -> Result<Self, MoneyError> {
        self.0.checked_sub(other.0).map(Self).ok_or(MoneyError::Overflow)
    }

    /// Returns `-self`.
    pub fn checked_neg(self) -> Result<Self, MoneyError> {
        self.0.checked_neg().map(Self).ok_or(MoneyError::Overflow)
    }

    /// Returns the sum of all amounts. Only the final sum must fit, not the intermediate ones, so the order does not
    /// matter.
    pub fn sum(amounts: impl IntoIterator<Item = Self>) -> Result<Self, MoneyError> {
        let sum: i128 = amounts.into_iter().map(|amount| i128::from(amount.0)).sum();
        i64::try_from(sum).map(Self).map_err(|_| MoneyError::Overflow)
    }

    /// Converts `decimal` whole units exactly: 12.345 USD is an error.
    pub fn from_decimal(decimal: Decimal, currency: Currency) -> Result<Self, MoneyError> {
        let decimal = decimal.normalize();
        let missing = currency.minor_digits().checked_sub(decimal.scale()).ok_or(MoneyError::NotRepresentable)?;
        let units = decimal.mantissa().checked_mul(10_i128.pow(missing)).ok_or(MoneyError::Overflow)?;
        i64::try_from(units).map(Self).map_err(|_| MoneyError::Overflow)
    }
}

impl From<i64> for Minor {
    fn from(units: i64) -> Self {
        Self(units)
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for Minor {
    type Err = MoneyError;

    fn from_str(text: &str) -> Result<Self, MoneyError> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(MoneyError::NotMinor);
        }
        text.parse().map(Self).map_err(|_| MoneyError::Overflow)
    }
}

impl Serialize for Minor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Minor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl ToSql for Minor {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.0.to_sql(ty, out)
    }

    accepts!(INT8);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Minor {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        i64::from_sql(ty, raw).map(Self)
    }

    accepts!(INT8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(json: &str) -> Result<Minor, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn json_is_a_string_of_digits_and_nothing_else() {
        assert_eq!(read("\"-12345\""), Ok(Minor::new(-12345)));
        assert_eq!(read("\"9223372036854775807\""), Ok(Minor::MAX));
        for wrong in ["12345", "1.5", "\"\"", "\"-\"", "\"+5\"", "\"1.0\"", "\" 1\"", "\"1e3\"", "\"٣\"", "null"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(read("\"9223372036854775808\"").unwrap_err().contains("too large"));
    }

    #[test]
    fn arithmetic_that_overflows_is_an_error() {
        let one = Minor::new(1);
        assert_eq!(Minor::MAX.checked_add(one), Err(MoneyError::Overflow));
        assert_eq!(Minor::MIN.checked_sub(one), Err(MoneyError::Overflow));
        assert_eq!(Minor::MIN.checked_neg(), Err(MoneyError::Overflow));
        assert_eq!(Minor::sum([Minor::MAX, one]), Err(MoneyError::Overflow));
        assert_eq!(Minor::sum([Minor::MAX, one, Minor::new(-1)]), Ok(Minor::MAX));
    }

    #[test]
    fn a_decimal_is_converted_exactly_or_rejected() {
        let usd = |text: &str| Minor::from_decimal(text.parse().unwrap(), Currency::USD);
        assert_eq!(usd("12.34"), Ok(Minor::new(1234)));
        assert_eq!(usd("-0.0100"), Ok(Minor::new(-1)));
        assert_eq!(usd("12.345"), Err(MoneyError::NotRepresentable));
        assert_eq!(usd("92233720368547758.08"), Err(MoneyError::Overflow));
        assert_eq!(usd("79228162514264337593543950335"), Err(MoneyError::Overflow));
        let yen = "JPY".parse().unwrap();
        assert_eq!(Minor::from_decimal("7.5".parse().unwrap(), yen), Err(MoneyError::NotRepresentable));
    }

    proptest! {
        #[test]
        fn every_amount_survives_text_json_and_decimal(units: i64) {
            let amount = Minor::new(units);
            prop_assert_eq!(amount.to_string().parse(), Ok(amount));
            prop_assert_eq!(read(&serde_json::to_string(&amount).unwrap()), Ok(amount));
            let decimal = Decimal::new(units, Currency::USD.minor_digits());
            prop_assert_eq!(Minor::from_decimal(decimal, Currency::USD), Ok(amount));
        }

        #[test]
        fn sums_are_exact_or_an_error(units: Vec<i64>) {
            let exact: i128 = units.iter().map(|unit| i128::from(*unit)).sum();
            let sum = Minor::sum(units.into_iter().map(Minor::new));
            prop_assert_eq!(sum.ok().map(|sum| i128::from(sum.get())), i64::try_from(exact).ok().map(i128::from));
        }

        #[test]
        fn adding_and_subtracting_an_amount_restores_the_original(a: i64, b: i64) {
            let (a, b) = (Minor::new(a), Minor::new(b));
            if let Ok(sum) = a.checked_add(b) {
                prop_assert_eq!(sum.checked_sub(b), Ok(a));
            }
        }
    }
}
