//! Exact bounds of a rate that was observed in a few messages: Clopper-Pearson intervals and Fisher's exact test, from sums
//! of binomial and hypergeometric terms. No normal approximation: a canary has to decide about 2 failures in 30 messages.

use super::Sample;

/// Halvings of an interval until no further digit of an `f64` changes.
const HALVINGS: usize = 60;
/// Up to here, factorials are multiplied; above, Stirling's series is exact to the last digits.
const SMALL: u64 = 32;

/// Returns the one-sided lower bound of the failure rate with this confidence, such as 0.99.
pub fn lower_bound(sample: Sample, confidence: f64) -> f64 {
    if sample.failures == 0 {
        return 0.0;
    }
    // The tail grows with the rate: the bound is where it reaches what confidence leaves.
    bisect(|rate| at_least(sample, rate) < 1.0 - confidence)
}

/// Returns the one-sided upper bound of the failure rate with this confidence, such as 0.95. Without messages it is 1.
pub fn upper_bound(sample: Sample, confidence: f64) -> f64 {
    if sample.failures >= sample.messages {
        return 1.0;
    }
    bisect(|rate| at_most(sample, rate) > 1.0 - confidence)
}

/// Returns the probability of at least as many failures as were seen, if `rate` is the true rate.
pub(super) fn at_least(sample: Sample, rate: f64) -> f64 {
    match sample.failures.checked_sub(1) {
        None => 1.0,
        Some(fewer) => (1.0 - at_most(Sample { failures: fewer, ..sample }, rate)).max(0.0),
    }
}

/// Returns the probability of at most as many failures as were seen, if `rate` is the true rate.
pub(super) fn at_most(sample: Sample, rate: f64) -> f64 {
    let Sample { messages, failures } = sample;
    if failures >= messages || rate <= 0.0 {
        return 1.0;
    }
    if rate >= 1.0 {
        return 0.0;
    }
    let (ln_rate, ln_rest) = (rate.ln(), (-rate).ln_1p());
    let term = |k: u64| (ln_choose(messages, k) + k as f64 * ln_rate + (messages - k) as f64 * ln_rest).exp();
    (0..=failures).map(term).sum::<f64>().min(1.0)
}

/// Returns the probability that the candidate has at least its number of failures if it is no worse than the control:
/// Fisher's exact test, one-sided.
pub fn fisher_exact(candidate: Sample, control: Sample) -> f64 {
    let (messages, failures) = (candidate.messages + control.messages, candidate.failures + control.failures);
    let most = failures.min(candidate.messages);
    let all = ln_choose(messages, failures);
    let term = |k: u64| {
        let elsewhere = failures - k;
        if elsewhere > control.messages {
            return 0.0;
        }
        (ln_choose(candidate.messages, k) + ln_choose(control.messages, elsewhere) - all).exp()
    };
    (candidate.failures..=most).map(term).sum::<f64>().min(1.0)
}

/// Returns the largest rate below which `is_below` holds.
fn bisect(is_below: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if is_below(middle) { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

fn ln_choose(n: u64, k: u64) -> f64 {
    ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
}

fn ln_factorial(n: u64) -> f64 {
    if n <= SMALL {
        return (2..=n).map(|factor| factor as f64).product::<f64>().ln();
    }
    let x = n as f64;
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1_260.0 * x.powi(5));
    x * x.ln() - x + 0.5 * (std::f64::consts::TAU * x).ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factorials_agree_on_both_sides_of_the_series() {
        let stepwise: f64 = (2..=60_u64).map(|factor| (factor as f64).ln()).sum();
        assert!((ln_factorial(60) - stepwise).abs() < 1e-11);
        assert!((ln_factorial(SMALL + 1) - ln_factorial(SMALL) - ((SMALL + 1) as f64).ln()).abs() < 1e-11);
    }

    #[test]
    fn fishers_test_agrees_with_a_table_that_can_be_counted_by_hand() {
        // Of the 70 ways to choose 4 of 8 cups, 17 have at least 3 right: the lady tasting tea.
        let (milk_first, tea_first) = (Sample { messages: 4, failures: 3 }, Sample { messages: 4, failures: 1 });
        assert!((fisher_exact(milk_first, tea_first) - 17.0 / 70.0).abs() < 1e-12);
    }
}
