//! Decides when a failed delivery is retried.

use jiff::{Timestamp, fmt::rfc2822};
use serde::Deserialize;
use std::{str::FromStr, time::Duration};

/// The longest delay in a schedule. An endpoint that does not respond for this long is presumed gone.
const MAX_DELAY: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The delay before each attempt: `0s 5s 5m`. The number of delays is the number of attempts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct RetrySchedule(Vec<Duration>);

/// The error for text that is not a retry schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a list of delays: write whole numbers with ms, s, m or h, up to 720h, such as 0s 5s 5m")]
pub struct InvalidRetrySchedule(String);

impl RetrySchedule {
    /// Returns the delay after `failed` attempts; `None` if that was the last one.
    pub(crate) fn delay_after(&self, failed: u32) -> Option<Duration> {
        self.0.get(usize::try_from(failed).unwrap_or(usize::MAX)).copied()
    }
}

impl FromStr for RetrySchedule {
    type Err = InvalidRetrySchedule;

    fn from_str(text: &str) -> Result<Self, InvalidRetrySchedule> {
        let invalid = || InvalidRetrySchedule(text.to_owned());
        let delays = text.split_whitespace().map(parse_delay).collect::<Option<Vec<_>>>().ok_or_else(invalid)?;
        if delays.is_empty() { Err(invalid()) } else { Ok(Self(delays)) }
    }
}

impl TryFrom<String> for RetrySchedule {
    type Error = InvalidRetrySchedule;

    fn try_from(text: String) -> Result<Self, InvalidRetrySchedule> {
        text.parse()
    }
}

fn parse_delay(text: &str) -> Option<Duration> {
    let digits = text.find(|character: char| !character.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let delay = Duration::from_millis(number.parse::<u64>().ok()?.checked_mul(unit_ms)?);
    (delay <= MAX_DELAY).then_some(delay)
}

/// Extends `delay` by a random part of `percent` of it, 100 at most. `random` is between 0 and 1.
pub(crate) fn with_jitter(delay: Duration, percent: u32, random: f64) -> Duration {
    delay.mul_f64(1.0 + random.clamp(0.0, 1.0) * f64::from(percent.min(100)) / 100.0)
}

/// Parses the delay that `Retry-After` requests: a number of seconds, or a date.
pub(crate) fn parse_retry_after(header: &str, now: Timestamp) -> Option<Duration> {
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
    fn there_are_as_many_attempts_as_delays() {
        let schedule: RetrySchedule = "0s 5s 5m 30m 2h 5h 10h 14h 20h 24h".parse().unwrap();
        let seconds: Vec<u64> =
            (0..20).map_while(|failed| schedule.delay_after(failed)).map(|delay| delay.as_secs()).collect();
        assert_eq!(seconds, [0, 5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400]);
        for bad in ["", "5", "s", "5 s", "-5s", "5d", "721h", "99999999999999999999s"] {
            assert!(bad.parse::<RetrySchedule>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn jitter_extends_a_delay_and_never_shortens_it() {
        let delay = Duration::from_secs(100);
        assert_eq!(with_jitter(delay, 20, 0.0), delay);
        assert_eq!(with_jitter(delay, 20, 1.0), Duration::from_secs(120));
        assert_eq!(with_jitter(Duration::ZERO, 20, 1.0), Duration::ZERO);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now: Timestamp = "1994-11-06T08:49:00Z".parse().unwrap();
        assert_eq!(parse_retry_after("120", now), Some(Duration::from_secs(120)));
        assert_eq!(parse_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Duration::from_secs(37)));
        assert_eq!(parse_retry_after("Sun, 06 Nov 1994 08:48:37 GMT", now), Some(Duration::ZERO));
        assert_eq!(parse_retry_after("soon", now), None);
    }
}
