//! Rate limits per address and collector.
//!
//! Each process limits every sender by GCRA. If `surveys.cache_url` names a Redis, all processes also share one limit,
//! stored as a theoretical arrival time that one script updates. While Redis is unavailable, each process limits on its
//! own. The address is that of the connection; a forwarding header counts only if one of our proxies wrote it.

use crate::{
    settings::{Settings, TrustedProxy},
    shared_redis::SharedRedis,
};
use governor::{
    Quota, RateLimiter,
    clock::{Clock, DefaultClock},
    middleware::NoOpMiddleware,
    nanos::Nanos,
    state::{InMemoryState, StateStore, direct::NotKeyed},
};
use onceward::web::axum::http::HeaderMap;
use quick_cache::sync::Cache;
use std::{
    convert::Infallible,
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
    sync::Arc,
};
use uuid::Uuid;

/// The maximum number of senders remembered. A sender that is forgotten early starts with a full burst again.
const SENDERS_MAX: usize = 131_072;
/// The longest time that a sender is asked to wait.
const RETRY_AFTER_S_MAX: u64 = 3600;
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Advances a sender's theoretical arrival time by one interval and returns 0, or returns the microseconds to wait.
/// Uses Redis' own clock, so that processes with different clocks agree; the key expires once the sender's bucket would
/// be full again.
const ARRIVE: &str = "
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
    local arrival = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now) + interval
    local wait = arrival - burst * interval - now
    if wait > 0 then
        return wait
    end
    redis.call('SET', KEYS[1], string.format('%.0f', arrival), 'PX', math.ceil((arrival - now) / 1000))
    return 0";

/// A collector and the network of an address.
type SenderKey = (Uuid, IpAddr);

/// Limits the request rate of each sender. Without a rate, it allows everything.
pub struct RespondentRateLimiter {
    limits: Option<RateLimits>,
}

struct RateLimits {
    quota: Quota,
    local: LocalLimiter<DefaultClock>,
    shared: Option<SharedRedis>,
}

impl RespondentRateLimiter {
    /// Creates a limiter with the rate and burst from the settings.
    pub fn new(settings: &Settings) -> Self {
        let limits = NonZeroU32::new(settings.rate_per_s).map(|rate| {
            let quota =
                Quota::per_second(rate).allow_burst(NonZeroU32::new(settings.rate_burst).unwrap_or(NonZeroU32::MIN));
            let local = LocalLimiter::new(quota, DefaultClock::default());
            RateLimits { quota, local, shared: SharedRedis::new(&settings.cache_url) }
        });
        Self { limits }
    }

    /// Allows a request, or fails with the number of seconds to wait.
    pub async fn check(&self, collector: Uuid, address: IpAddr) -> Result<(), u32> {
        let Some(limits) = &self.limits else {
            return Ok(());
        };
        let network = network(address);
        // The local limit comes first, so that a sender that floods one process is refused without a call to Redis.
        limits.local.check((collector, network))?;
        let Some(shared) = &limits.shared else {
            return Ok(());
        };
        let key = format!("onceward:surveys:rate:{collector}:{network}");
        let interval_us = (limits.quota.replenish_interval().as_micros() as u64).max(1);
        let wait_us = shared.eval(ARRIVE, &key, &[interval_us, limits.quota.burst_size().get().into()]).await;
        match wait_us {
            Some(wait_us) if wait_us > 0 => Err(retry_after_s(wait_us.div_ceil(1_000_000))),
            Some(_) | None => Ok(()),
        }
    }
}

/// The limits of this process.
struct LocalLimiter<C: Clock> {
    limiter: RateLimiter<SenderKey, SenderStates, C, NoOpMiddleware<C::Instant>>,
    clock: C,
}

impl<C: Clock + Clone> LocalLimiter<C> {
    fn new(quota: Quota, clock: C) -> Self {
        let states = SenderStates(Cache::new(SENDERS_MAX));
        Self { limiter: RateLimiter::new(quota, states, clock.clone()), clock }
    }

    fn check(&self, sender: SenderKey) -> Result<(), u32> {
        self.limiter.check_key(&sender).map_err(|refused| {
            let wait = refused.wait_time_from(self.clock.now());
            retry_after_s(wait.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX))
        })
    }
}

/// The state of each sender, in a cache so that senders cannot fill the memory.
struct SenderStates(Cache<SenderKey, Arc<InMemoryState>>);

impl StateStore for SenderStates {
    type Key = SenderKey;

    fn measure_and_replace<T, F, E>(&self, sender: &SenderKey, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let Ok(state) = self.0.get_or_insert_with::<_, Infallible>(sender, || Ok(Arc::default()));
        state.measure_and_replace(&NotKeyed::NonKey, measure)
    }
}

fn retry_after_s(wait_s: u64) -> u32 {
    wait_s.clamp(1, RETRY_AFTER_S_MAX) as u32
}

/// Maps an IPv6 address to its /64 network, because one connection usually has a whole /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

/// Returns the caller's address: the connection's peer or, behind our proxies, the nearest forwarded address that is
/// not one of them.
pub fn client_address(peer: IpAddr, headers: &HeaderMap, proxies: &[TrustedProxy]) -> IpAddr {
    let is_proxy = |address: IpAddr| proxies.iter().any(|proxy| proxy.contains(address));
    let mut client = peer.to_canonical();
    let lines: Vec<&str> = headers.get_all(FORWARDED_FOR).iter().filter_map(|line| line.to_str().ok()).collect();
    let mut hops = lines.iter().rev().flat_map(|line| line.rsplit(','));
    while is_proxy(client) {
        match hops.next().map(|hop| hop.trim().parse::<IpAddr>()) {
            Some(Ok(hop)) => client = hop.to_canonical(),
            Some(Err(_)) | None => break,
        }
    }
    client
}

#[cfg(test)]
mod tests {
    use super::*;
    use governor::clock::FakeRelativeClock;
    use std::time::Duration;

    fn limiter(rate_per_s: u32, rate_burst: u32) -> LocalLimiter<FakeRelativeClock> {
        let [rate, burst] = [rate_per_s, rate_burst].map(|count| NonZeroU32::new(count).unwrap());
        LocalLimiter::new(Quota::per_second(rate).allow_burst(burst), FakeRelativeClock::default())
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_burst_is_allowed_and_then_the_rate_applies_to_each_sender_separately() {
        let (limiter, collector) = (limiter(2, 3), Uuid::now_v7());
        let check = |address: &str| limiter.check((collector, network(ip(address))));
        assert_eq!([0; 4].map(|_| check("192.0.2.1")), [Ok(()), Ok(()), Ok(()), Err(1)]);
        assert_eq!(check("192.0.2.2"), Ok(()), "another address has its own limit");
        assert_eq!(limiter.check((Uuid::now_v7(), ip("192.0.2.1"))), Ok(()), "another collector has its own limit");
        let same_network = ["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4"];
        assert_eq!(same_network.map(check), [Ok(()), Ok(()), Ok(()), Err(1)], "addresses of one /64 share a limit");
        limiter.clock.advance(Duration::from_millis(500));
        assert_eq!([0; 2].map(|_| check("192.0.2.1")), [Ok(()), Err(1)]);
    }

    #[test]
    fn the_number_of_remembered_senders_is_bounded() {
        let (limiter, collector) = (limiter(1, 1), Uuid::now_v7());
        for number in 0..2 * SENDERS_MAX as u32 {
            let _ = limiter.check((collector, IpAddr::V4(number.into())));
        }
        let remembered = limiter.limiter.into_state_store().0.len();
        assert!((SENDERS_MAX / 2..=SENDERS_MAX).contains(&remembered), "{remembered}");
    }

    #[test]
    fn forwarded_addresses_are_trusted_only_from_our_proxies() {
        let proxies = ["10.0.0.0/8".to_owned()].map(|text| TrustedProxy::try_from(text).unwrap());
        let mut headers = HeaderMap::new();
        headers.append(FORWARDED_FOR, "203.0.113.9, 198.51.100.7".parse().unwrap());
        headers.append(FORWARDED_FOR, "10.0.0.2".parse().unwrap());
        assert_eq!(
            client_address(ip("10.0.0.1"), &headers, &proxies),
            ip("198.51.100.7"),
            "addresses before the nearest client are the client's own claim"
        );
        assert_eq!(client_address(ip("192.0.2.1"), &headers, &proxies), ip("192.0.2.1"));
        assert_eq!(client_address(ip("10.0.0.1"), &HeaderMap::new(), &proxies), ip("10.0.0.1"));
    }
}
