//! How many workers the work needs, by its age and by its amount.

use super::{PoolSettings, PoolSignals};

/// The part of a worker's time that is planned for; the rest absorbs variation.
const PLANNED_USE: f64 = 0.7;
/// Sums of floats differ in the last bits; a difference below this is none.
const ROUNDING: f64 = 1e-9;

/// Returns `current × metric / target`, rounded up, or `current` if metric and target differ by a tenth or less.
///
/// The comparison uses integers: in floats, |110/100 − 1| ≤ 0.1 is false.
pub fn proportional_size(current: usize, metric: u64, target: u64) -> usize {
    let target = u128::from(target.max(1));
    let metric = u128::from(metric);
    if metric.abs_diff(target) * 10 <= target {
        return current;
    }
    usize::try_from((current as u128 * metric).div_ceil(target)).unwrap_or(usize::MAX)
}

/// Returns the number of workers that keeps up with the arrivals and finishes the backlog within the target age.
/// `None` without a target or without figures.
pub(super) fn workers_for_the_work(settings: &PoolSettings, signals: &PoolSignals<'_>) -> Option<usize> {
    let (arrivals_per_s, mean_ms) = (signals.arrivals_per_s?, signals.mean_ms?);
    // A message in flight is work as well, or a pool that has taken everything would look idle.
    let backlog = signals.waiting?.saturating_add(signals.in_flight.unwrap_or(0));
    let steady = arrivals_per_s * mean_ms / 1_000.0 / PLANNED_USE;
    let drain = backlog as f64 * mean_ms / settings.target_age_ms? as f64;
    // A cast of a float saturates, and NaN becomes 0.
    Some((steady + drain - ROUNDING).ceil() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S-12, the sizes of Kubernetes' horizontal autoscaler. The third differs from it on purpose: its tolerance is
    /// inclusive by its own rule, and only float arithmetic makes it 4.
    #[test]
    fn a_size_follows_the_metric_outside_a_tolerance_of_a_tenth() {
        for (current, metric, target, size) in
            [(50, 90, 75, 60), (50, 80, 75, 50), (3, 110, 100, 3), (3, 111, 100, 4), (10, 50, 100, 5), (3, 90, 100, 3)]
        {
            assert_eq!(proportional_size(current, metric, target), size, "{current} at {metric}/{target}");
        }
        assert_eq!(proportional_size(usize::MAX, u64::MAX, 1), usize::MAX);
        assert_eq!(proportional_size(2, 3, 0), 6);
    }

    #[test]
    fn work_counts_arrivals_and_backlog_by_how_long_a_message_takes() {
        let settings = PoolSettings { target_age_ms: Some(60_000), ..PoolSettings::new("scan", ["scan"]) };
        let signals = |mean_ms, waiting| PoolSignals {
            waiting: Some(waiting),
            in_flight: Some(0),
            arrivals_per_s: Some(7.0),
            mean_ms: Some(mean_ms),
            ..PoolSignals::default()
        };
        assert_eq!(workers_for_the_work(&settings, &signals(1_000.0, 0)), Some(10));
        assert_eq!(workers_for_the_work(&settings, &signals(1_000.0, 600)), Some(20));
        assert_eq!(
            workers_for_the_work(&settings, &signals(10.0, 600)),
            Some(1),
            "a hundred fast ones are little work"
        );
        let unknown = PoolSignals { mean_ms: None, ..signals(1.0, 600) };
        assert_eq!(workers_for_the_work(&settings, &unknown), None);
    }
}
