//! A budget over all calls of a consumer or to a destination: limits retries to a fraction of the traffic.
//!
//! When a dependency is down, every message fails, and backoff alone still multiplies the load by the number of
//! attempts. A budget limits retries to a fraction of the first attempts of the last seconds.

use serde::{Deserialize, Serialize};

/// The limit on the retries of a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryBudget {
    /// Retries allowed per first attempt: 0.1 is one in ten.
    pub ratio: f64,
    /// Retries per second that are allowed however little traffic there is. Where `ratio` allows more, this adds nothing.
    pub min_per_second: f64,
    /// The time window in which attempts are counted.
    pub window_ms: u64,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { ratio: 0.1, min_per_second: 10.0, window_ms: 10_000 }
    }
}

/// The window moves in steps of a tenth, which bounds the memory and is precise enough.
const SLOTS: usize = 10;

#[derive(Debug, Clone, Copy, Default)]
struct WindowSlot {
    index: u64,
    first_attempts: u64,
    retries: u64,
}

/// The spent part of a budget. The caller passes the time, in milliseconds of any monotonic clock.
#[derive(Debug, Clone)]
pub struct BudgetState {
    budget: RetryBudget,
    slots: [WindowSlot; SLOTS],
    latest_ms: u64,
    last_retry_ms: u64,
    processes: usize,
}

impl BudgetState {
    /// Creates a full budget.
    pub fn new(budget: RetryBudget) -> Self {
        Self { budget, slots: [WindowSlot::default(); SLOTS], latest_ms: 0, last_retry_ms: 0, processes: 1 }
    }

    /// Divides the minimum by the number of processes that call the same destination, so that it holds for all together.
    pub fn divide_by(&mut self, processes: usize) {
        self.processes = processes.max(1);
    }

    /// Counts a first attempt, which earns a fraction of a retry.
    pub fn deposit(&mut self, now_ms: u64) {
        self.slot(now_ms).first_attempts += 1;
    }

    /// Requests one retry. Returns whether it is allowed; if so, it is spent.
    pub fn withdraw(&mut self, now_ms: u64) -> bool {
        if self.balance(now_ms) < 1.0 {
            return false;
        }
        self.slot(now_ms).retries += 1;
        self.last_retry_ms = self.latest_ms;
        true
    }

    /// Returns the number of retries that are left.
    pub fn balance(&self, now_ms: u64) -> f64 {
        let now_ms = now_ms.max(self.latest_ms);
        let newest = self.index_of(now_ms);
        let counts = |slot: &&WindowSlot| newest - slot.index < SLOTS as u64;
        let (first_attempts, retries) = self
            .slots
            .iter()
            .filter(counts)
            .fold((0, 0), |(first, retries), slot| (first + slot.first_attempts, retries + slot.retries));
        let reserve = self.reserve();
        let earned = self.budget.ratio * first_attempts as f64;
        let left = reserve.max(earned) - retries as f64;
        // A share of less than one retry per window is one retry in several windows.
        let waited_ms = (now_ms - self.last_retry_ms) as f64;
        let is_due = reserve > 0.0 && reserve < 1.0 && waited_ms * reserve >= self.budget.window_ms as f64;
        if is_due { left.max(1.0) } else { left }
    }

    /// Returns this process's part of the minimum, in retries per window.
    fn reserve(&self) -> f64 {
        self.budget.min_per_second * self.budget.window_ms as f64 / 1_000.0 / self.processes as f64
    }

    /// Returns the slot of this time, cleared if it holds counts of an earlier window.
    fn slot(&mut self, now_ms: u64) -> &mut WindowSlot {
        // A clock that goes backwards must not revive expired slots.
        self.latest_ms = self.latest_ms.max(now_ms);
        let index = self.index_of(self.latest_ms);
        let slot = &mut self.slots[(index % SLOTS as u64) as usize];
        if slot.index != index {
            *slot = WindowSlot { index, ..WindowSlot::default() };
        }
        slot
    }

    fn index_of(&self, now_ms: u64) -> u64 {
        now_ms / (self.budget.window_ms / SLOTS as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NO_RESERVE: RetryBudget = RetryBudget { ratio: 0.1, min_per_second: 0.0, window_ms: 10_000 };

    #[test]
    fn first_attempts_earn_retries_by_the_ratio() {
        let mut state = BudgetState::new(RetryBudget { ratio: 0.125, ..NO_RESERVE });
        (0..7).for_each(|_| state.deposit(0));
        assert!(!state.withdraw(0));
        state.deposit(0);
        assert!(state.withdraw(0));
        assert!(!state.withdraw(0));
    }

    #[test]
    fn an_idle_consumer_has_a_reserve_that_renews_after_the_window() {
        let mut state = BudgetState::new(RetryBudget::default());
        assert_eq!((0..1_000).filter(|_| state.withdraw(5)).count(), 100);
        assert!(!state.withdraw(9_999));
        assert!(state.withdraw(10_000));
    }

    #[test]
    fn earned_retries_expire() {
        let mut state = BudgetState::new(NO_RESERVE);
        (0..100).for_each(|_| state.deposit(0));
        assert!(state.withdraw(9_999));
        assert!(!state.withdraw(10_000));
    }

    #[test]
    fn processes_share_the_minimum_and_a_part_of_less_than_one_comes_once_in_several_windows() {
        let budget = RetryBudget { ratio: 0.2, min_per_second: 1.0, window_ms: 10_000 };
        let retries = |processes: usize| {
            let mut state = BudgetState::new(budget);
            state.divide_by(processes);
            (0..100_000).step_by(100).filter(|now_ms| state.withdraw(*now_ms)).count()
        };
        assert_eq!([1, 2, 5, 10].map(retries), [100, 50, 20, 10]);
        assert_eq!(retries(40), 2, "one in forty seconds");
    }

    #[test]
    fn a_clock_that_goes_backwards_earns_nothing() {
        let mut state = BudgetState::new(RetryBudget::default());
        while state.withdraw(50_000) {}
        assert!(!state.withdraw(0));
        assert!(!state.withdraw(20_000));
    }

    proptest! {
        /// Compares every result with a recount of the whole history.
        #[test]
        fn retries_never_exceed_their_share_of_any_window(
            steps in proptest::collection::vec((0..400u64, any::<bool>()), 1..400),
            ratio in 0.0..1.0,
            // Less than one retry per window has a test of its own.
            min_per_second in prop_oneof![Just(0.0), 0.5..3.0],
        ) {
            let budget = RetryBudget { ratio, min_per_second, window_ms: 2_000 };
            let (mut state, reserve) = (BudgetState::new(budget), min_per_second * 2.0);
            let (mut now_ms, mut first, mut again) = (0, Vec::new(), Vec::new());
            for (wait_ms, retry) in steps {
                now_ms += wait_ms;
                let in_window = |times: &[u64]| times.iter().filter(|t| now_ms / 200 - **t / 200 < 10).count() as f64;
                if retry {
                    let left = f64::max(reserve, ratio * in_window(&first)) - in_window(&again);
                    let allowed = state.withdraw(now_ms);
                    // Sums in another order differ in the last bits; only a larger difference is an error.
                    prop_assert!((left - 1.0).abs() < 1e-9 || allowed == (left >= 1.0));
                    if allowed {
                        again.push(now_ms);
                    }
                } else {
                    state.deposit(now_ms);
                    first.push(now_ms);
                }
            }
        }
    }
}
