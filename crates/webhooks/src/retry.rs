//! When a delivery that failed is tried again.

use jiff::{Timestamp, fmt::rfc2822};
use serde::Deserialize;
use std::{str::FromStr, time::Duration};

/// Who does not answer for this long is not there any more.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The wait before each attempt: `0s 5s 5m`. There are as many attempts as waits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Waits(Vec<Duration>);

/// Not a list of waits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a list of waits: write whole numbers with ms, s, m or h, up to 720h, such as 0s 5s 5m")]
pub struct NotWaits(String);

impl Waits {
    /// How long to wait after `failed` attempts; `None` if that was the last.
    pub(crate) fn after(&self, failed: u32) -> Option<Duration> {
        self.0.get(usize::try_from(failed).unwrap_or(usize::MAX)).copied()
    }
}

impl FromStr for Waits {
    type Err = NotWaits;

    fn from_str(text: &str) -> Result<Self, NotWaits> {
        let wrong = || NotWaits(text.to_owned());
        let waits = text.split_whitespace().map(wait).collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
        if waits.is_empty() { Err(wrong()) } else { Ok(Self(waits)) }
    }
}

impl TryFrom<String> for Waits {
    type Error = NotWaits;

    fn try_from(text: String) -> Result<Self, NotWaits> {
        text.parse()
    }
}

fn wait(text: &str) -> Option<Duration> {
    let digits = text.find(|character: char| !character.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let wait = Duration::from_millis(number.parse::<u64>().ok()?.checked_mul(unit_ms)?);
    (wait <= LONGEST).then_some(wait)
}

/// The wait, made longer by up to `percent` of it, 100 at most; `chance` is between 0 and 1.
pub(crate) fn jittered(wait: Duration, percent: u32, chance: f64) -> Duration {
    wait.mul_f64(1.0 + chance.clamp(0.0, 1.0) * f64::from(percent.min(100)) / 100.0)
}

/// What `Retry-After` asks for: a number of seconds, or a date.
pub(crate) fn asked_for(header: &str, now: Timestamp) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = rfc2822::parse(header).ok()?.timestamp();
    Some(Duration::try_from(at.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_attempts_as_waits() {
        let waits: Waits = "0s 5s 5m 30m 2h 5h 10h 14h 20h 24h".parse().unwrap();
        let seconds: Vec<u64> = (0..20).map_while(|failed| waits.after(failed)).map(|wait| wait.as_secs()).collect();
        assert_eq!(seconds, [0, 5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400]);
        for bad in ["", "5", "s", "5 s", "-5s", "5d", "721h", "99999999999999999999s"] {
            assert!(bad.parse::<Waits>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_wait_gets_longer_and_never_shorter() {
        let wait = Duration::from_secs(100);
        assert_eq!(jittered(wait, 20, 0.0), wait);
        assert_eq!(jittered(wait, 20, 1.0), Duration::from_secs(120));
        assert_eq!(jittered(Duration::ZERO, 20, 1.0), Duration::ZERO);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now: Timestamp = "1994-11-06T08:49:00Z".parse().unwrap();
        assert_eq!(asked_for("120", now), Some(Duration::from_secs(120)));
        assert_eq!(asked_for("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Duration::from_secs(37)));
        assert_eq!(asked_for("Sun, 06 Nov 1994 08:48:37 GMT", now), Some(Duration::ZERO));
        assert_eq!(asked_for("soon", now), None);
    }
}
