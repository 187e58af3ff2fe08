//! An annual interest rate.

use crate::{Decimal, MoneyError};
use bytes::BytesMut;
use postgres_types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, error::Error, fmt, str::FromStr};

/// An annual rate as a fraction of 1: 0.075 is 7.5 %. Exact, from 0 to 10, with at most 12 decimals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(Decimal);

impl Rate {
    /// No interest.
    pub const ZERO: Self = Self(Decimal::ZERO);

    const MAX_DECIMALS: u32 = 12;

    /// Creates a rate from `fraction`. Fails if it is out of range or has too many decimals.
    pub fn new(fraction: Decimal) -> Result<Self, MoneyError> {
        let fraction = fraction.normalize();
        let fits = fraction.scale() <= Self::MAX_DECIMALS && (Decimal::ZERO..=Decimal::TEN).contains(&fraction);
        if fits { Ok(Self(fraction)) } else { Err(MoneyError::NotRate) }
    }

    /// Creates a rate from a percentage: `7.5` is 0.075.
    pub fn percent(percent: Decimal) -> Result<Self, MoneyError> {
        Self::new(percent.checked_div(Decimal::ONE_HUNDRED).ok_or(MoneyError::NotRate)?)
    }

    /// Returns the rate as a fraction of 1.
    pub const fn fraction(self) -> Decimal {
        self.0
    }

    /// Returns whether the rate is 0 %.
    pub fn is_zero(self) -> bool {
        self.0.is_zero()
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rate({})", self.0)
    }
}

impl FromStr for Rate {
    type Err = MoneyError;

    fn from_str(text: &str) -> Result<Self, MoneyError> {
        // `Decimal`'s own parser rounds text that is too long, and accepts signs and underscores.
        let plain = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        if !plain(whole) || !plain(decimals) {
            return Err(MoneyError::NotRate);
        }
        Self::new(Decimal::from_str_exact(text).map_err(|_| MoneyError::NotRate)?)
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl ToSql for Rate {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.0.to_sql(ty, out)
    }

    fn accepts(ty: &Type) -> bool {
        <Decimal as ToSql>::accepts(ty)
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Rate {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self::new(Decimal::from_sql(ty, raw)?)?)
    }

    fn accepts(ty: &Type) -> bool {
        <Decimal as FromSql>::accepts(ty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_rate_is_a_plain_decimal_fraction() {
        let rate: Rate = "0.0750".parse().unwrap();
        assert_eq!(rate.to_string(), "0.075");
        assert_eq!(serde_json::to_string(&rate).unwrap(), "\"0.075\"");
        assert_eq!(Rate::percent("7.5".parse().unwrap()), Ok(rate));
        assert_eq!("0.0".parse(), Ok(Rate::ZERO));
        for wrong in ["", ".", "1.", ".5", "-0.01", "+0.1", "1e-2", "0_1", "10.01", "0.0000000000001", "7,5"] {
            assert_eq!(wrong.parse::<Rate>(), Err(MoneyError::NotRate), "{wrong}");
        }
        assert!(serde_json::from_str::<Rate>("0.075").is_err(), "a JSON number may be a float");
    }

    proptest! {
        #[test]
        fn every_rate_survives_text_and_json(mantissa in 0_i64..=10_000_000_000_000) {
            let rate = Rate::new(Decimal::new(mantissa, 12)).unwrap();
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
            let json = serde_json::to_string(&rate).unwrap();
            prop_assert_eq!(serde_json::from_str::<Rate>(&json).unwrap(), rate);
        }

        #[test]
        fn every_rate_survives_the_database_format(mantissa in 0_i64..=10_000_000_000_000) {
            let rate = Rate::new(Decimal::new(mantissa, 12)).unwrap();
            let mut wire = BytesMut::new();
            rate.to_sql(&Type::NUMERIC, &mut wire).unwrap();
            prop_assert_eq!(Rate::from_sql(&Type::NUMERIC, &wire).unwrap(), rate);
        }
    }
}
