//! Durations as people write them: `10s`, `5m`, `2h`, `1d`.

use std::time::Duration;

const UNITS_MS: &[(&str, u64)] = &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
/// Longer than any retention period.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// Parses a number with its unit.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_ms = UNITS_MS.iter().find(|(name, _)| *name == unit).map(|(_, ms)| *ms);
    let time = number.parse::<u64>().ok().zip(unit_ms).and_then(|(number, unit)| number.checked_mul(unit));
    time.map(Duration::from_millis)
        .filter(|time| *time <= LONGEST)
        .ok_or_else(|| "enter a number with its unit, like 500ms, 10s, 5m, 2h or 1d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_with_a_unit() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("90m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(parse("1d"), Ok(Duration::from_secs(86_400)));
        for wrong in ["", "10", "h", "-1s", "1.5h", "1h30m", "99999999999999999999d", "40000d"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
