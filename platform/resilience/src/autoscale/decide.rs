//! The decision about the next size of a worker pool.

use super::{PoolSettings, PoolSignals, demand, proportional_size};
use serde::{Deserialize, Serialize};

/// A pool may grow by this many workers at once, or by its own size if that is more.
const LARGEST_STEP_UP: usize = 4;

/// What was decided about the size of a pool, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalingDecision {
    /// The size before.
    pub from: usize,
    /// The size from now on.
    pub to: usize,
    /// The reason, such as `3 → 4: 61 waiting ≥ 50`.
    pub reason: String,
}

impl ScalingDecision {
    /// Returns whether the size changes.
    pub fn is_change(&self) -> bool {
        self.from != self.to
    }
}

/// The size of a pool, and since when it is as it is. The caller passes the time, in milliseconds of any monotonic
/// clock.
///
/// It can be stored, so that any process can make the next decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScalingState {
    size: usize,
    changed_at_ms: Option<u64>,
    low_since_ms: Option<u64>,
}

impl ScalingState {
    /// Creates the state of a pool of `size` workers, which may change at once.
    pub fn new(size: usize) -> Self {
        Self { size, changed_at_ms: None, low_since_ms: None }
    }

    /// Returns the size that was decided last.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Decides the size of the pool. Call it every `check_every_ms`; the figures are of all processes together.
    ///
    /// The pool grows as soon as the cooldown is over, and shrinks by one step if the figures were also low in every
    /// check of `stabilize_ms`. Without figures it keeps its size.
    pub fn decide(&mut self, settings: &PoolSettings, signals: &PoolSignals<'_>, now_ms: u64) -> ScalingDecision {
        let from = self.size;
        let (to, reason) = self.next_size(settings, signals, now_ms);
        if to == from {
            return ScalingDecision { from, to, reason: format!("{from}: {reason}") };
        }
        *self = Self { size: to, changed_at_ms: Some(now_ms), low_since_ms: None };
        ScalingDecision { from, to, reason: format!("{from} → {to}: {reason}") }
    }

    fn next_size(&mut self, settings: &PoolSettings, signals: &PoolSignals<'_>, now_ms: u64) -> (usize, String) {
        let size = self.size;
        if size < settings.min {
            return (settings.min, format!("the minimum is {}", settings.min));
        }
        if size > settings.max {
            return (settings.max, format!("the maximum is {}", settings.max));
        }
        let low = reason_to_shrink(settings, signals, size);
        self.low_since_ms = low.is_some().then(|| self.low_since_ms.unwrap_or(now_ms));
        let resting_ms = self.changed_at_ms.map_or(u64::MAX, |changed| now_ms.saturating_sub(changed));
        match (reason_to_grow(settings, signals, size), low) {
            (Some((wanted, reason)), _) => {
                let permitted = signals.permits.unwrap_or(usize::MAX).max(settings.min);
                let to = wanted.min(settings.max).min(permitted).max(size);
                if let Some(obstacle) = signals.blocked {
                    (size, format!("{reason}, but {obstacle}"))
                } else if to == size && size == settings.max {
                    (size, format!("{reason}, but the maximum is {size}"))
                } else if to == size {
                    (size, format!("{reason}, but the destinations allow {permitted} calls"))
                } else if resting_ms < settings.cooldown_ms {
                    (size, format!("{reason}, but the last change was {resting_ms} ms ago"))
                } else {
                    (to, reason)
                }
            }
            (None, Some(reason)) => {
                let low_ms = now_ms.saturating_sub(self.low_since_ms.unwrap_or(now_ms));
                if size == settings.min {
                    (size, format!("{reason}, but the minimum is {size}"))
                } else if low_ms < settings.stabilize_ms {
                    (size, format!("{reason} for {low_ms} of {} ms", settings.stabilize_ms))
                } else if resting_ms < settings.cooldown_ms {
                    (size, format!("{reason}, but the last change was {resting_ms} ms ago"))
                } else {
                    (size.saturating_sub(settings.step).max(settings.min), reason)
                }
            }
            (None, None) if signals.waiting.is_none() => (size, "no figures".to_owned()),
            (None, None) => (size, "enough workers".to_owned()),
        }
    }
}

/// Returns the largest size that a figure asks for, with the figure, if it is above `size`.
fn reason_to_grow(settings: &PoolSettings, signals: &PoolSignals<'_>, size: usize) -> Option<(usize, String)> {
    let at_once = size.saturating_add(size.max(LARGEST_STEP_UP));
    let by_length = signals
        .waiting
        .filter(|waiting| *waiting >= settings.scale_up_at)
        .map(|waiting| (size.saturating_add(settings.step), format!("{waiting} waiting ≥ {}", settings.scale_up_at)));
    let by_age = settings.target_age_ms.zip(signals.oldest_age_ms).map(|(target_ms, age_ms)| {
        (proportional_size(size, age_ms, target_ms).min(at_once), format!("oldest {age_ms} ms > {target_ms} ms"))
    });
    let by_work = demand::workers_for_the_work(settings, signals)
        .map(|needed| (needed.min(at_once), format!("the work needs {needed}")));
    let wanted = [by_length, by_age, by_work].into_iter().flatten().filter(|(wanted, _)| *wanted > size);
    wanted.max_by_key(|(wanted, _)| *wanted)
}

/// Returns the figure that allows a step down, if every other known figure allows it too.
fn reason_to_shrink(settings: &PoolSettings, signals: &PoolSignals<'_>, size: usize) -> Option<String> {
    let waiting = signals.waiting.filter(|waiting| *waiting <= settings.scale_down_at)?;
    let smaller = size.saturating_sub(settings.step).max(settings.min);
    // The remaining workers would be busy for at most 70 % of their time.
    let is_idle = signals.in_flight.is_none_or(|busy| u128::from(busy) * 10 <= smaller as u128 * 7 || busy == 0);
    let is_young = settings.target_age_ms.zip(signals.oldest_age_ms).is_none_or(|(target, age)| age <= target / 2);
    let is_little = demand::workers_for_the_work(settings, signals).is_none_or(|needed| needed <= smaller);
    (is_idle && is_young && is_little).then(|| format!("{waiting} waiting ≤ {}", settings.scale_down_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verify() -> PoolSettings {
        PoolSettings { min: 2, ..PoolSettings::new("verify", ["verify-document"]) }
    }

    fn waiting(waiting: u64) -> PoolSignals<'static> {
        PoolSignals { waiting: Some(waiting), in_flight: Some(0), ..PoolSignals::default() }
    }

    /// Decides every ten seconds and returns the sizes.
    fn sizes(state: &mut ScalingState, settings: &PoolSettings, from_ms: u64, signals: &[PoolSignals]) -> Vec<usize> {
        let times = (0..).map(|check| from_ms + check * settings.check_every_ms);
        times.zip(signals).map(|(now_ms, signals)| state.decide(settings, signals, now_ms).to).collect()
    }

    #[test]
    fn a_decision_names_its_figure() {
        let decision = ScalingState::new(3).decide(&verify(), &waiting(61), 0);
        assert_eq!(decision, ScalingDecision { from: 3, to: 4, reason: "3 → 4: 61 waiting ≥ 50".to_owned() });
        assert!(decision.is_change());
        let decision = ScalingState::new(3).decide(&verify(), &waiting(20), 0);
        assert_eq!((decision.is_change(), decision.reason.as_str()), (false, "3: enough workers"));
    }

    /// The numbers of three real pools: bounds, thresholds, check interval and cooldown.
    #[test]
    fn pools_grow_one_step_per_cooldown_up_to_their_maximum() {
        let pools = [
            (2, 10, 50, 10, 10_000, 30_000, "verify"),
            (3, 15, 30, 5, 10_000, 20_000, "payment"),
            (2, 8, 100, 20, 15_000, 30_000, "mail"),
        ];
        for (min, max, scale_up_at, scale_down_at, check_every_ms, cooldown_ms, name) in pools {
            let settings = PoolSettings {
                min,
                max,
                scale_up_at,
                scale_down_at,
                check_every_ms,
                cooldown_ms,
                stabilize_ms: cooldown_ms,
                ..PoolSettings::new(name, [name])
            };
            assert_eq!(settings.validate(), [""; 0]);
            let (mut state, mut now_ms, mut changes) = (ScalingState::new(min), 0, Vec::new());
            let mut run = |state: &mut ScalingState, figure, checks| {
                for _ in 0..checks {
                    let decision = state.decide(&settings, &waiting(figure), now_ms);
                    if decision.is_change() {
                        changes.push((now_ms, decision.to));
                    }
                    now_ms += check_every_ms;
                }
            };
            run(&mut state, scale_up_at - 1, 10);
            assert_eq!(state.size(), min, "{name} stays below its threshold");
            run(&mut state, scale_up_at, 100);
            assert_eq!(state.size(), max, "{name}");
            run(&mut state, scale_down_at + 1, 100);
            assert_eq!(state.size(), max, "{name} keeps its size between the thresholds");
            run(&mut state, scale_down_at, 100);
            assert_eq!(state.size(), min, "{name}");
            assert_eq!(changes.len(), 2 * (max - min), "{name} changes by one");
            assert!(changes.windows(2).all(|pair| pair[1].0 - pair[0].0 >= cooldown_ms), "{name}: {changes:?}");
        }
    }

    #[test]
    fn one_busy_check_in_the_window_prevents_a_step_down() {
        let mut state = ScalingState::new(5);
        let (low, busy) = (waiting(3), waiting(20));
        assert_eq!(
            sizes(&mut state, &verify(), 0, &[low, low, low, busy, low, low, low, low]),
            [5, 5, 5, 5, 5, 5, 5, 4]
        );
    }

    #[test]
    fn missing_figures_keep_the_size_and_begin_the_window_again() {
        let (mut state, low, unknown) = (ScalingState::new(5), waiting(0), PoolSignals::default());
        assert_eq!(
            sizes(&mut state, &verify(), 0, &[low, low, low, unknown, low, low, low, low]),
            [5, 5, 5, 5, 5, 5, 5, 4]
        );
        assert_eq!(state.decide(&verify(), &unknown, 1_000_000).reason, "4: no figures");
    }

    #[test]
    fn a_pool_whose_workers_are_busy_does_not_shrink() {
        let busy = PoolSignals { in_flight: Some(5), ..waiting(0) };
        assert_eq!(sizes(&mut ScalingState::new(5), &verify(), 0, &[busy; 20]), [5; 20]);
    }

    /// S-19: more workers cannot help while the destination is down; once it is back, they grow within their bounds.
    #[test]
    fn a_pool_does_not_grow_while_its_destination_cannot_take_more() {
        let backlog = waiting(10_000);
        let blocked = PoolSignals { blocked: Some("the breaker of sms is open"), ..backlog };
        let mut state = ScalingState::new(3);
        assert_eq!(sizes(&mut state, &verify(), 0, &[blocked; 20]), [3; 20]);
        assert_eq!(sizes(&mut state, &verify(), 200_000, &[backlog; 40])[39], 10);
        let reason = ScalingState::new(3).decide(&verify(), &blocked, 0).reason;
        assert_eq!(reason, "3: 10000 waiting ≥ 50, but the breaker of sms is open");
    }

    #[test]
    fn a_pool_has_no_more_workers_than_its_destinations_allow_calls() {
        let signals = PoolSignals { permits: Some(4), ..waiting(10_000) };
        assert_eq!(sizes(&mut ScalingState::new(3), &verify(), 0, &[signals; 20])[19], 4);
        let fewer_than_the_minimum = PoolSignals { permits: Some(1), ..waiting(10_000) };
        assert_eq!(sizes(&mut ScalingState::new(2), &verify(), 0, &[fewer_than_the_minimum; 20]), [2; 20]);
    }

    #[test]
    fn a_pool_outside_its_bounds_returns_to_them_at_once() {
        assert_eq!(ScalingState::new(0).decide(&verify(), &PoolSignals::default(), 0).to, 2);
        assert_eq!(ScalingState::new(50).decide(&verify(), &waiting(10_000), 0).to, 10);
    }

    #[test]
    fn a_clock_that_goes_backwards_shortens_no_cooldown() {
        let mut state = ScalingState::new(3);
        assert_eq!(state.decide(&verify(), &waiting(61), 100_000).to, 4);
        assert_eq!(state.decide(&verify(), &waiting(61), 0).to, 4);
    }

    #[test]
    fn with_a_target_age_a_pool_grows_by_the_work_and_by_the_age() {
        let settings = PoolSettings { max: 40, target_age_ms: Some(60_000), ..verify() };
        let work = PoolSignals { arrivals_per_s: Some(8.0), mean_ms: Some(1_000.0), ..waiting(0) };
        assert_eq!(ScalingState::new(2).decide(&settings, &work, 0).reason, "2 → 6: the work needs 12");
        let old = PoolSignals { oldest_age_ms: Some(120_000), ..waiting(0) };
        assert_eq!(ScalingState::new(10).decide(&settings, &old, 0).reason, "10 → 20: oldest 120000 ms > 60000 ms");
        let within_tolerance = PoolSignals { oldest_age_ms: Some(66_000), ..waiting(0) };
        assert_eq!(ScalingState::new(10).decide(&settings, &within_tolerance, 0).to, 10);
    }

    /// Arrivals go from 20 to 500 a minute and back; a message takes 1.5 s.
    #[test]
    fn a_step_of_the_load_keeps_the_age_and_changes_the_direction_twice_at_most() {
        let settings = PoolSettings { max: 30, target_age_ms: Some(60_000), ..verify() };
        let (mut state, mut backlog, mut directions, mut worst_age_ms) =
            (ScalingState::new(2), 0.0f64, Vec::new(), 0.0);
        for check in 0..360u64 {
            let arrivals_per_s = if (60..180).contains(&check) { 500.0 / 60.0 } else { 20.0 / 60.0 };
            let capacity_per_s = state.size() as f64 / 1.5;
            backlog = (backlog + (arrivals_per_s - capacity_per_s) * 10.0).max(0.0);
            let age_ms = backlog / capacity_per_s * 1_000.0;
            worst_age_ms = f64::max(worst_age_ms, age_ms);
            let signals = PoolSignals {
                waiting: Some(backlog as u64),
                in_flight: Some((arrivals_per_s * 1.5).min(state.size() as f64) as u64),
                oldest_age_ms: Some(age_ms as u64),
                arrivals_per_s: Some(arrivals_per_s),
                mean_ms: Some(1_500.0),
                ..PoolSignals::default()
            };
            let decision = state.decide(&settings, &signals, check * 10_000);
            let direction = decision.to.cmp(&decision.from);
            if decision.is_change() && directions.last() != Some(&direction) {
                directions.push(direction);
            }
        }
        assert_eq!(directions, [std::cmp::Ordering::Greater, std::cmp::Ordering::Less]);
        assert!(worst_age_ms <= 60_000.0, "{worst_age_ms}");
        assert_eq!(state.size(), 2);
    }
}
