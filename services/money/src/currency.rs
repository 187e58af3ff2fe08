//! ISO 4217 currency codes.

use crate::MoneyError;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, fmt, str::FromStr};

/// An ISO 4217 currency code: three upper-case letters. Only the letters are checked, not the list, because codes
/// change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; 3]);

impl Currency {
    /// United States dollar.
    pub const USD: Self = Self(*b"USD");
    /// Euro.
    pub const EUR: Self = Self(*b"EUR");

    /// Returns the code.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("the letters are ASCII")
    }

    /// Returns the number of decimals of the smallest unit: 2 for USD, 0 for JPY, 3 for KWD.
    pub fn minor_digits(self) -> u32 {
        match &self.0 {
            b"BIF" | b"CLP" | b"DJF" | b"GNF" | b"ISK" | b"JPY" | b"KMF" | b"KRW" | b"PYG" | b"RWF" | b"UGX"
            | b"UYI" | b"VND" | b"VUV" | b"XAF" | b"XOF" | b"XPF" => 0,
            b"BHD" | b"IQD" | b"JOD" | b"KWD" | b"LYD" | b"OMR" | b"TND" => 3,
            b"CLF" | b"UYW" => 4,
            _ => 2,
        }
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Currency {
    type Err = MoneyError;

    fn from_str(text: &str) -> Result<Self, MoneyError> {
        match <[u8; 3]>::try_from(text.as_bytes()) {
            Ok(letters) if letters.iter().all(u8::is_ascii_uppercase) => Ok(Self(letters)),
            _ => Err(MoneyError::NotCurrency),
        }
    }
}

impl Serialize for Currency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Currency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

crate::text_column!(Currency);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_currency_is_three_upper_case_letters() {
        assert_eq!("USD".parse(), Ok(Currency::USD));
        for wrong in ["", "US", "USDT", "usd", "U5D", "É1", "US "] {
            assert_eq!(wrong.parse::<Currency>(), Err(MoneyError::NotCurrency), "{wrong}");
        }
        assert_eq!(serde_json::from_str::<Currency>("\"EUR\"").unwrap(), Currency::EUR);
        assert_eq!(serde_json::to_string(&Currency::EUR).unwrap(), "\"EUR\"");
        assert!(serde_json::from_str::<Currency>("\"eur\"").is_err());
    }

    #[test]
    fn the_smallest_unit_is_not_always_a_hundredth() {
        let digits = |code: &str| code.parse::<Currency>().unwrap().minor_digits();
        assert_eq!(["USD", "EUR", "JPY", "KWD", "CLF"].map(digits), [2, 2, 0, 3, 4]);
    }
}
