//! The one door for time and identifiers, so that a test can hold it.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::fingerprint;

/// Tells the time.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// Hands out event ids.
pub trait Ids: Send + Sync {
    /// A new version 7 UUID, larger than those handed out before.
    fn event_id(&self) -> Uuid;
}

impl<T: Clock + ?Sized> Clock for Arc<T> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

impl<T: Ids + ?Sized> Ids for Arc<T> {
    fn event_id(&self) -> Uuid {
        (**self).event_id()
    }
}

/// The machine's clock, in whole microseconds: what PostgreSQL stores, so that a time read back is equal.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }
}

/// A clock that stands still until it is moved. Clones share the same hands.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Mutex<Timestamp>>);

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(start)))
    }

    /// Shows `now` from here on, even if that is earlier.
    pub fn set(&self, now: Timestamp) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Moves on by `by`, and stops at the end of time rather than overflow.
    pub fn advance(&self, by: SignedDuration) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *now = now.saturating_add(by).unwrap_or(Timestamp::MAX);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Time-ordered random ids.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemIds;

impl Ids for SystemIds {
    fn event_id(&self) -> Uuid {
        Uuid::now_v7()
    }
}

/// The same ids in the same order for the same seed.
#[derive(Debug)]
pub struct SeededIds {
    seed: u64,
    next: AtomicU64,
}

impl SeededIds {
    /// Ids that follow from `seed` alone.
    pub fn new(seed: u64) -> Self {
        Self { seed, next: AtomicU64::new(0) }
    }
}

/// 2024-01-01: a fixed beginning, so that seeded ids look like real ones and sort in order of creation.
const SEEDED_START_MS: u64 = 1_704_067_200_000;

impl Ids for SeededIds {
    fn event_id(&self) -> Uuid {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let hash = fingerprint([self.seed.to_be_bytes(), index.to_be_bytes()].concat());
        let mut random = [0; 10];
        random.copy_from_slice(&hash[..10]);
        uuid::Builder::from_unix_timestamp_millis(SEEDED_START_MS + index, &random).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
        let same = clock.clone();
        assert_eq!(clock.now(), Timestamp::UNIX_EPOCH);
        same.advance(SignedDuration::from_secs(5));
        assert_eq!(clock.now().as_second(), 5);
        clock.set(Timestamp::UNIX_EPOCH);
        assert_eq!(same.now(), Timestamp::UNIX_EPOCH);
    }

    #[test]
    fn the_system_clock_shows_whole_microseconds() {
        assert_eq!(SystemClock.now().as_nanosecond() % 1_000, 0);
    }

    #[test]
    fn seeded_ids_repeat_and_sort_in_order_of_creation() {
        let take = |seed| {
            let ids = SeededIds::new(seed);
            (0..100).map(|_| ids.event_id()).collect::<Vec<_>>()
        };
        let first = take(7);
        assert_eq!(first, take(7));
        assert_ne!(first, take(8));
        assert!(first.is_sorted());
        assert!(first.iter().all(|id| id.get_version_num() == 7));
    }
}
