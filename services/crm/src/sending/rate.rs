//! How many mails per second this process hands over, to a provider and to a recipient domain.

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter, clock::Clock};
use std::{num::NonZeroU32, time::Duration};

/// Domains that are remembered before idle ones are forgotten.
const MAX_DOMAINS: usize = 10_000;

/// The limits of one provider.
pub(crate) struct SendRates {
    provider: Option<DefaultDirectRateLimiter>,
    domains: Option<DefaultKeyedRateLimiter<String>>,
}

impl SendRates {
    /// Creates limits; 0 means none.
    pub(crate) fn new(per_provider: u32, per_domain: u32) -> Self {
        let quota = |rate: u32| NonZeroU32::new(rate).map(Quota::per_second);
        Self {
            provider: quota(per_provider).map(RateLimiter::direct),
            domains: quota(per_domain).map(RateLimiter::keyed),
        }
    }

    /// Takes the right to hand over one mail to `domain`, or returns how long to wait for it.
    pub(crate) fn acquire(&self, domain: &str) -> Result<(), Duration> {
        if let Some(domains) = &self.domains {
            if domains.len() > MAX_DOMAINS {
                domains.retain_recent();
            }
            let checked = domains.check_key(&domain.to_owned());
            checked.map_err(|until| until.wait_time_from(governor::clock::DefaultClock::default().now()))?;
        }
        if let Some(provider) = &self.provider {
            let checked = provider.check();
            checked.map_err(|until| until.wait_time_from(governor::clock::DefaultClock::default().now()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_has_its_own_rate_and_the_provider_has_one_for_all() {
        let rates = SendRates::new(3, 1);
        assert!(rates.acquire("a.example").is_ok());
        assert!(rates.acquire("a.example").is_err_and(|wait| wait <= Duration::from_secs(1)));
        assert!(rates.acquire("b.example").is_ok());
        assert!(rates.acquire("c.example").is_ok());
        assert!(rates.acquire("d.example").is_err());
        let unlimited = SendRates::new(0, 0);
        assert!((0..1_000).all(|_| unlimited.acquire("a.example").is_ok()));
    }
}
