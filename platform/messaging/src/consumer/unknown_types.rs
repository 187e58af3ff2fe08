//! Log lines about messages of unknown types: few, however many messages there are and however often each is checked.

use onceward_envelope::EventType;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// The minimum time between two log lines about one type.
const LOG_INTERVAL: Duration = Duration::from_secs(600);
/// The maximum number of types remembered; their names come from outside.
const TYPES_AT_MOST: usize = 1_000;

/// When a line was last written about each type.
#[derive(Default)]
pub(crate) struct UnknownTypes(Mutex<HashMap<EventType, Instant>>);

impl UnknownTypes {
    /// Returns whether a line about `event_type` is due.
    pub(crate) fn is_log_due(&self, event_type: &EventType) -> bool {
        self.is_log_due_at(event_type, Instant::now())
    }

    fn is_log_due_at(&self, event_type: &EventType, now: Instant) -> bool {
        let mut types = self.0.lock();
        if types.get(event_type).is_some_and(|last| now.duration_since(*last) < LOG_INTERVAL) {
            return false;
        }
        if types.len() >= TYPES_AT_MOST {
            types.retain(|_, last| now.duration_since(*last) < LOG_INTERVAL);
        }
        if types.len() < TYPES_AT_MOST {
            types.insert(event_type.clone(), now);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_logged_once_in_ten_minutes() {
        let types = UnknownTypes::default();
        let (a, b): (EventType, EventType) = ("order.placd.v1".parse().unwrap(), "order.placed.v2".parse().unwrap());
        let start = Instant::now();
        assert!(types.is_log_due_at(&a, start) && types.is_log_due_at(&b, start));
        assert!(!types.is_log_due_at(&a, start + LOG_INTERVAL / 2));
        assert!(types.is_log_due_at(&a, start + LOG_INTERVAL) && !types.is_log_due_at(&a, start + LOG_INTERVAL));
    }
}
