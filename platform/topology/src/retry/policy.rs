//! Backoff per message: the delay after each failure, and the maximum number of attempts.

use serde::{Deserialize, Serialize};

/// How a consumer retries a message after a transient failure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryPolicy {
    /// The number of attempts, including the first, before a message is dead-lettered.
    pub max_attempts: u32,
    /// The delay after the first failure.
    pub initial_ms: u64,
    /// The factor from each delay to the next; less than 1 counts as 1.
    pub factor: f64,
    /// Added to each delay after the first, once more each time: with a factor of 1, delays grow linearly.
    #[serde(skip_serializing_if = "is_zero")]
    pub step_ms: u64,
    /// The maximum delay.
    pub cap_ms: u64,
    /// How the delay is randomized, so that messages that failed together are not retried together.
    pub jitter: Jitter,
}

/// How a delay is randomized.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    /// Not at all.
    None,
    /// From zero to the whole delay, which spreads retries best.
    #[default]
    Full,
    /// From half the delay to the whole, so that no retry is immediate.
    Equal,
    /// From a quarter less to a quarter more, so that the mean is the delay itself.
    Quarter,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl RetryPolicy {
    /// Returns a policy without retries.
    pub const fn none() -> Self {
        Self::exponential(1)
    }

    /// Returns a policy of `max_attempts` attempts with delays of 1 s, 2 s, 4 s … up to a minute, with full jitter.
    pub const fn exponential(max_attempts: u32) -> Self {
        Self { max_attempts, initial_ms: 1_000, factor: 2.0, step_ms: 0, cap_ms: 60_000, jitter: Jitter::Full }
    }

    /// Sets the first delay.
    pub const fn initial_ms(mut self, initial_ms: u64) -> Self {
        self.initial_ms = initial_ms;
        self
    }

    /// Sets the factor.
    pub const fn factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// Sets what is added to each delay after the first.
    pub const fn step_ms(mut self, step_ms: u64) -> Self {
        self.step_ms = step_ms;
        self
    }

    /// Sets the maximum delay.
    pub const fn cap_ms(mut self, cap_ms: u64) -> Self {
        self.cap_ms = cap_ms;
        self
    }

    /// Sets the jitter.
    pub const fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Returns the delay after attempt number `attempt` (from 1) failed, or `None` if it was the last.
    ///
    /// The caller passes `random`, between 0 and 1, so that the same input has the same result.
    pub fn delay_ms(&self, attempt: u32, random: f64) -> Option<u64> {
        if attempt >= self.max_attempts {
            return None;
        }
        let whole = self.backoff_ms(attempt.max(1));
        let random = if random.is_nan() { 0.0 } else { random.clamp(0.0, 1.0) };
        let spread = match self.jitter {
            Jitter::None => whole,
            Jitter::Full => whole * random,
            Jitter::Equal => whole / 2.0 + whole / 2.0 * random,
            Jitter::Quarter => whole * (0.75 + 0.5 * random),
        };
        // The cast saturates, and rounding of large doubles must not exceed the cap.
        Some((spread as u64).min(self.cap_ms))
    }

    /// Returns the delay before jitter. An overflow to infinity is limited to the cap like any long delay.
    fn backoff_ms(&self, attempt: u32) -> f64 {
        let exponent = i32::try_from(attempt - 1).unwrap_or(i32::MAX);
        let growth = self.factor.max(1.0).powi(exponent);
        let first = if self.initial_ms == 0 { 0.0 } else { self.initial_ms as f64 * growth };
        (first + self.step_ms as f64 * f64::from(attempt - 1)).min(self.cap_ms as f64)
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::exponential(5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn delays_double_up_to_the_cap_and_end_with_the_last_attempt() {
        let policy = RetryPolicy::exponential(9).jitter(Jitter::None);
        let delays: Vec<_> = (1..=9).map(|attempt| policy.delay_ms(attempt, 0.5)).collect();
        let seconds = [1, 2, 4, 8, 16, 32, 60, 60];
        assert_eq!(delays[..8], seconds.map(|s| Some(s * 1_000)));
        assert_eq!(delays[8], None);
    }

    #[test]
    fn the_default_is_five_attempts() {
        assert!(RetryPolicy::default().delay_ms(4, 1.0).is_some());
        assert_eq!(RetryPolicy::default().delay_ms(5, 1.0), None);
        assert_eq!(RetryPolicy::none().delay_ms(1, 1.0), None);
    }

    #[test]
    fn jitter_spreads_over_its_range() {
        let policy = RetryPolicy::exponential(5);
        assert_eq!(policy.delay_ms(1, 0.0), Some(0));
        assert_eq!(policy.delay_ms(1, 1.0), Some(1_000));
        let equal = policy.jitter(Jitter::Equal);
        assert_eq!(equal.delay_ms(1, 0.0), Some(500));
        assert_eq!(equal.delay_ms(1, 1.0), Some(1_000));
    }

    /// S-04 of the reference cases: a quarter less or more, for a constant delay of 1 s and for the third of a linear one.
    #[test]
    fn jitter_of_a_quarter_surrounds_the_delay() {
        let constant = RetryPolicy::exponential(5).factor(1.0).jitter(Jitter::Quarter);
        let delays = |policy: RetryPolicy, attempt| [0.0, 0.4, 0.6, 1.0].map(|random| policy.delay_ms(attempt, random));
        assert_eq!(delays(constant, 1), [750, 950, 1_050, 1_250].map(Some));
        assert_eq!(delays(constant, 3), [750, 950, 1_050, 1_250].map(Some));
        assert_eq!(delays(constant.step_ms(1_000), 3), [2_250, 2_850, 3_150, 3_750].map(Some));
    }

    #[test]
    fn unusual_input_is_accepted() {
        let policy = RetryPolicy::exponential(u32::MAX);
        assert_eq!(policy.delay_ms(1, f64::NAN), Some(0));
        assert_eq!(policy.delay_ms(0, 1.0), policy.delay_ms(1, 1.0));
        assert_eq!(policy.delay_ms(u32::MAX - 1, 1.0), Some(60_000));
        assert_eq!(policy.factor(f64::NAN).delay_ms(3, 1.0), Some(1_000));
    }

    /// S-05 of the reference cases: a base of a day and the thousandth attempt.
    #[test]
    fn the_thousandth_attempt_waits_for_the_cap_and_does_not_overflow() {
        const DAY_MS: u64 = 86_400_000;
        let policy = RetryPolicy::exponential(2_000).initial_ms(DAY_MS).jitter(Jitter::None);
        assert_eq!(policy.cap_ms(2 * DAY_MS).delay_ms(1_000, 1.0), Some(2 * DAY_MS));
        assert_eq!(policy.cap_ms(u64::MAX).delay_ms(1_000, 1.0), Some(u64::MAX));
    }

    #[test]
    fn omitted_members_of_a_policy_have_defaults() {
        let policy: RetryPolicy = serde_json::from_str(r#"{"max_attempts":3}"#).unwrap();
        assert_eq!(policy, RetryPolicy::exponential(3));
    }

    fn any_policy() -> impl Strategy<Value = RetryPolicy> {
        let jitter = prop_oneof![Just(Jitter::None), Just(Jitter::Full), Just(Jitter::Equal), Just(Jitter::Quarter)];
        (0..50u32, any::<u64>(), 0.0..1e6, any::<u64>(), any::<u64>(), jitter).prop_map(
            |(max_attempts, initial_ms, factor, step_ms, cap_ms, jitter)| RetryPolicy {
                max_attempts,
                initial_ms,
                factor,
                step_ms,
                cap_ms,
                jitter,
            },
        )
    }

    proptest! {
        #[test]
        fn a_delay_never_exceeds_the_cap(policy in any_policy(), attempt in 0..60u32, random in -1.0..2.0) {
            let delay_ms = policy.delay_ms(attempt, random);
            prop_assert_eq!(delay_ms.is_none(), attempt >= policy.max_attempts);
            prop_assert!(delay_ms.unwrap_or(0) <= policy.cap_ms);
        }

        #[test]
        fn without_jitter_delays_never_decrease(policy in any_policy()) {
            let policy = policy.jitter(Jitter::None);
            let delays: Vec<_> = (1..policy.max_attempts).filter_map(|n| policy.delay_ms(n, 0.0)).collect();
            prop_assert!(delays.is_sorted());
        }

        #[test]
        fn jitter_of_all_or_half_only_shortens_a_delay(policy in any_policy(), attempt in 1..60u32, random in 0.0..1.0) {
            let whole = policy.jitter(Jitter::None).delay_ms(attempt, random);
            for jitter in [Jitter::Full, Jitter::Equal] {
                prop_assert!(policy.jitter(jitter).delay_ms(attempt, random) <= whole);
            }
        }
    }
}
