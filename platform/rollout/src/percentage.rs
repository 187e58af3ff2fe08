//! Percentages in thousandths of a percent, and the buckets they select. Integers only: two processes, languages or
//! versions of this code cannot round differently.

use crate::murmur3_32;
use std::{fmt, str::FromStr};

/// The number of buckets: one for each thousandth of a percent.
pub const BUCKETS: u32 = 100_000;

/// A share between 0 % and 100 %, in thousandths of a percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percentage(u32);

/// The text or number is no percentage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no percentage; write a number from 0 to 100 with at most three decimals, such as 12.5")]
pub struct PercentageError(pub String);

impl Percentage {
    /// Selects nobody.
    pub const NOBODY: Self = Self(0);
    /// Selects everybody.
    pub const EVERYBODY: Self = Self(BUCKETS);

    /// Returns the percentage of this many thousandths of a percent. Fails above 100,000.
    pub fn from_thousandths(thousandths: u32) -> Result<Self, PercentageError> {
        if thousandths <= BUCKETS { Ok(Self(thousandths)) } else { Err(PercentageError(thousandths.to_string())) }
    }

    /// Returns the percentage in thousandths of a percent.
    pub const fn thousandths(self) -> u32 {
        self.0
    }

    /// Whether the percentage selects a bucket.
    pub const fn selects(self, bucket: u32) -> bool {
        bucket < self.0
    }
}

impl fmt::Display for Percentage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:03}", self.0 / 1_000, self.0 % 1_000);
        write!(f, "{} %", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl FromStr for Percentage {
    type Err = PercentageError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.strip_suffix('%').unwrap_or(text).trim();
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let wrong = || PercentageError(text.to_owned());
        if !is_number(whole) || !is_number(decimals) || decimals.len() > 3 {
            return Err(wrong());
        }
        let thousandths: Option<u32> = format!("{whole}{decimals:0<3}").parse().ok();
        thousandths.and_then(|thousandths| Self::from_thousandths(thousandths).ok()).ok_or_else(wrong)
    }
}

/// Scales a hash to a bucket of `buckets`, without the bias of a remainder.
pub fn scale(hash: u32, buckets: u32) -> u32 {
    // The product has at most 64 bits, so its upper half has at most 32.
    ((u64::from(hash) * u64::from(buckets)) >> 32) as u32
}

/// Returns the bucket, below [`BUCKETS`], of a targeting key for flags with this salt. The parts of the key are hashed as
/// one text, directly after the salt.
pub fn bucket_of(salt: &str, key_parts: &[&str]) -> u32 {
    let bytes = salt.bytes().chain(key_parts.iter().flat_map(|part| part.bytes()));
    scale(murmur3_32(bytes, 0), BUCKETS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_read_and_written_exactly() {
        for (text, thousandths, written) in
            [("0", 0, "0 %"), ("100", 100_000, "100 %"), ("51.217", 51_217, "51.217 %"), ("12.5%", 12_500, "12.5 %")]
        {
            let percentage: Percentage = text.parse().expect("it is a percentage");
            assert_eq!((percentage.thousandths(), percentage.to_string().as_str()), (thousandths, written));
        }
    }

    #[test]
    fn what_is_no_percentage_is_refused() {
        for text in ["", "-1", "100.001", "101", "0.0001", "1e1", "a", ".", "1.", "99999999999"] {
            assert!(text.parse::<Percentage>().is_err(), "{text}");
        }
    }
}
