//! How often one address may call for one collector.
//!
//! A bucket of tokens for each, in this process: it is there to keep one sender from crowding out the others, not to count
//! exactly. The address is the connection's; what a header says of it counts only where a proxy of ours wrote it.

use crate::settings::{Proxy, Settings};
use onceward::web::axum::http::HeaderMap;
use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::Mutex,
    time::Instant,
};
use uuid::Uuid;

/// Addresses that are remembered, in each of [`PARTS`] parts.
const KEPT: usize = 8_192;
const PARTS: usize = 16;
const FORWARDED_FOR: &str = "x-forwarded-for";

type Key = (Uuid, IpAddr);

/// Lets senders through at their rate.
pub struct Limiter {
    rate_per_s: f64,
    burst: f64,
    parts: [Mutex<HashMap<Key, Tokens>>; PARTS],
}

#[derive(Clone, Copy)]
struct Tokens {
    left: f64,
    at: Instant,
}

impl Limiter {
    /// With the rate and burst that are set.
    pub fn new(settings: &Settings) -> Self {
        let (rate, burst) = (f64::from(settings.rate_per_s), f64::from(settings.rate_burst.max(1)));
        Self { rate_per_s: rate, burst, parts: std::array::from_fn(|_| Mutex::default()) }
    }

    /// Takes a token, or tells after how many seconds there is one.
    pub fn take(&self, collector: Uuid, address: IpAddr, now: Instant) -> Result<(), u32> {
        if self.rate_per_s == 0.0 {
            return Ok(());
        }
        let key = (collector, network(address));
        let mut part = self.parts[part_of(&key)].lock().expect("no panic while held");
        if part.len() >= KEPT && !part.contains_key(&key) {
            self.forget(&mut part, now);
        }
        let tokens = part.entry(key).or_insert(Tokens { left: self.burst, at: now });
        tokens.left = self.refilled(tokens, now);
        tokens.at = now;
        if tokens.left < 1.0 {
            let wait_s = ((1.0 - tokens.left) / self.rate_per_s).ceil();
            return Err(wait_s.clamp(1.0, 3600.0) as u32);
        }
        tokens.left -= 1.0;
        Ok(())
    }

    fn refilled(&self, tokens: &Tokens, now: Instant) -> f64 {
        let more = now.saturating_duration_since(tokens.at).as_secs_f64() * self.rate_per_s;
        (tokens.left + more).min(self.burst)
    }

    /// Those who have all their tokens back are as good as new. If that is nobody, all are forgotten: better than no bound.
    fn forget(&self, part: &mut HashMap<Key, Tokens>, now: Instant) {
        part.retain(|_, tokens| self.refilled(tokens, now) < self.burst);
        if part.len() >= KEPT {
            part.clear();
        }
    }
}

fn part_of((collector, address): &Key) -> usize {
    let address = match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() >> 64,
    };
    let mixed = (collector.as_u128() ^ address).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    (mixed >> 100) as usize % PARTS
}

/// One line has a whole /64 of IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

/// Who calls: the connection's other end, or the nearest address that proxies of ours pass on and that is none of theirs.
pub fn client_address(peer: IpAddr, headers: &HeaderMap, proxies: &[Proxy]) -> IpAddr {
    let ours = |address: IpAddr| proxies.iter().any(|proxy| proxy.is(address));
    let mut client = peer.to_canonical();
    let lines: Vec<&str> = headers.get_all(FORWARDED_FOR).iter().filter_map(|line| line.to_str().ok()).collect();
    let mut hops = lines.iter().rev().flat_map(|line| line.rsplit(','));
    while ours(client) {
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
    use std::time::Duration;

    fn limiter(rate_per_s: u32, rate_burst: u32) -> Limiter {
        Limiter::new(&Settings { rate_per_s, rate_burst, ..Settings::default() })
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_burst_passes_and_then_the_rate_binds_for_each_on_its_own() {
        let (limiter, start, collector) = (limiter(2, 3), Instant::now(), Uuid::now_v7());
        let take = |address: &str, after_ms: u64| {
            limiter.take(collector, ip(address), start + Duration::from_millis(after_ms)).is_ok()
        };
        assert_eq!([0; 4].map(|after| take("192.0.2.1", after)), [true, true, true, false]);
        assert!(take("192.0.2.2", 0), "another address has its own");
        assert_eq!([500, 500].map(|after| take("192.0.2.1", after)), [true, false]);
        assert!(limiter.take(Uuid::now_v7(), ip("192.0.2.1"), start).is_ok(), "another collector has its own");
        assert!(take("2001:db8::1", 0) && take("2001:db8::2", 0) && take("2001:db8::3", 0));
        assert!(!take("2001:db8::4", 0), "one line has many addresses");
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let (limiter, now, collector) = (limiter(1, 1), Instant::now(), Uuid::now_v7());
        for number in 0..(KEPT * PARTS * 2) as u32 {
            let _ = limiter.take(collector, IpAddr::V4(number.into()), now);
        }
        let kept = limiter.parts.iter().map(|part| part.lock().unwrap().len());
        assert!(kept.clone().all(|kept| kept <= KEPT), "{:?}", kept.collect::<Vec<_>>());
    }

    #[test]
    fn only_our_proxies_are_believed() {
        let proxies = ["10.0.0.0/8".to_owned()].map(|text| Proxy::try_from(text).unwrap());
        let mut headers = HeaderMap::new();
        headers.append(FORWARDED_FOR, "203.0.113.9, 198.51.100.7".parse().unwrap());
        headers.append(FORWARDED_FOR, "10.0.0.2".parse().unwrap());
        assert_eq!(
            client_address(ip("10.0.0.1"), &headers, &proxies),
            ip("198.51.100.7"),
            "what it says before is its word"
        );
        assert_eq!(client_address(ip("192.0.2.1"), &headers, &proxies), ip("192.0.2.1"));
        assert_eq!(client_address(ip("10.0.0.1"), &HeaderMap::new(), &proxies), ip("10.0.0.1"));
    }
}
