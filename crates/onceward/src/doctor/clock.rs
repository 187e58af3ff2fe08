//! Whether this machine and the database agree on the time. Delays, leases and expiry go by the database's clock, tokens
//! and schedules by this machine's.

use super::{Finding, Patient, store};
use jiff::Timestamp;

const TRIES: usize = 5;
const TOLERATED_MS: i64 = 1_000;

pub(super) async fn check(patient: &Patient<'_>) -> anyhow::Result<Vec<Finding>> {
    let mut best: Option<(i64, i64)> = None;
    for _ in 0..TRIES {
        let before = Timestamp::now().as_millisecond();
        let there: Timestamp = patient.ask(store::CLOCK, &[]).await?[0].get(0);
        let after = Timestamp::now().as_millisecond();
        let unsure = (after - before) / 2 + 1;
        let skew = there.as_millisecond() - (before + after) / 2;
        if best.is_none_or(|(_, least)| unsure < least) {
            best = Some((skew, unsure));
        }
    }
    Ok(best.and_then(|(skew, unsure)| judge(skew, unsure)).into_iter().collect())
}

/// The database's clock is `skew` ahead of ours, give or take `unsure` milliseconds.
fn judge(skew: i64, unsure: i64) -> Option<Finding> {
    let word = if skew > 0 { "ahead of" } else { "behind" };
    (skew.abs() - unsure > TOLERATED_MS).then(|| {
        Finding::warning(
            format!("the database's clock is {:.1} s {word} this machine's", skew.abs() as f64 / 1000.0),
            "let both machines take their time from the network (NTP)",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_answer_is_not_taken_for_a_wrong_clock() {
        assert_eq!(judge(1_500, 800), None);
        assert!(judge(-1_500, 10).expect("a skew").what.contains("1.5 s behind"));
        assert!(judge(90_000, 10).expect("a skew").what.contains("ahead of"));
    }
}
