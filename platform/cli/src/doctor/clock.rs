//! Checks that this machine and the database agree on the time. Delays, leases and expiry use the database's clock,
//! tokens and schedules this machine's.

use super::{CheckContext, DoctorFinding, store};
use jiff::Timestamp;

const SAMPLES: usize = 5;
const TOLERATED_MS: i64 = 1_000;

pub(super) async fn check(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let mut best: Option<(i64, i64)> = None;
    for _ in 0..SAMPLES {
        let before = Timestamp::now().as_millisecond();
        let database_time: Timestamp = context.query(store::CLOCK, &[]).await?[0].get(0);
        let after = Timestamp::now().as_millisecond();
        let uncertainty = (after - before) / 2 + 1;
        let skew = database_time.as_millisecond() - (before + after) / 2;
        if best.is_none_or(|(_, least)| uncertainty < least) {
            best = Some((skew, uncertainty));
        }
    }
    Ok(best.and_then(|(skew, uncertainty)| evaluate(skew, uncertainty)).into_iter().collect())
}

/// The database's clock is `skew` milliseconds ahead of ours, give or take `uncertainty` milliseconds.
fn evaluate(skew: i64, uncertainty: i64) -> Option<DoctorFinding> {
    let direction = if skew > 0 { "ahead of" } else { "behind" };
    (skew.abs() - uncertainty > TOLERATED_MS).then(|| {
        DoctorFinding::warning(
            format!("the database's clock is {:.1} s {direction} this machine's", skew.abs() as f64 / 1000.0),
            "synchronise both machines with NTP",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_response_is_not_mistaken_for_a_wrong_clock() {
        assert_eq!(evaluate(1_500, 800), None);
        assert!(evaluate(-1_500, 10).expect("a skew").what.contains("1.5 s behind"));
        assert!(evaluate(90_000, 10).expect("a skew").what.contains("ahead of"));
    }
}
