//! The results of the last seconds, counted in slots.

use std::collections::VecDeque;

/// A window moves in steps of a sixtieth, which bounds its memory.
const SLOTS: u64 = 60;

/// Counts in half units, because a throttled call counts as half a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Counts {
    pub calls: u64,
    pub half_failures: u64,
    pub slow: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Slot {
    index: u64,
    counts: Counts,
}

/// The results within a time, without the slots that have none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Window {
    slot_ms: u64,
    slots: VecDeque<Slot>,
}

impl Window {
    pub(super) fn new(window_ms: u64) -> Self {
        Self { slot_ms: (window_ms / SLOTS).max(1), slots: VecDeque::new() }
    }

    /// Counts a result. A result exactly as old as the window still counts; an older one is forgotten.
    pub(super) fn add(&mut self, counts: Counts, now_ms: u64) {
        // A clock that goes backwards must not revive results: time stands still until it has caught up.
        let newest = self.slots.back().map_or(0, |slot| slot.index);
        let index = (now_ms / self.slot_ms).max(newest);
        match self.slots.back_mut().filter(|slot| slot.index == index) {
            Some(slot) => slot.counts = slot.counts.plus(counts),
            None => self.slots.push_back(Slot { index, counts }),
        }
        while self.slots.front().is_some_and(|slot| index - slot.index > SLOTS) {
            self.slots.pop_front();
        }
    }

    /// Returns the sum of what was counted up to the last result.
    pub(super) fn total(&self) -> Counts {
        self.slots.iter().fold(Counts::default(), |total, slot| total.plus(slot.counts))
    }
}

impl Counts {
    fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            half_failures: self.half_failures + other.half_failures,
            slow: self.slow + other.slow,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILURE: Counts = Counts { calls: 1, half_failures: 2, slow: 0 };

    #[test]
    fn a_result_exactly_as_old_as_the_window_counts_and_an_older_one_does_not() {
        let mut window = Window::new(60_000);
        window.add(FAILURE, 0);
        window.add(FAILURE, 60_000);
        assert_eq!(window.total().calls, 2);
        window.add(FAILURE, 61_000);
        assert_eq!(window.total().calls, 2, "the first is 61 s old");
    }

    #[test]
    fn a_clock_that_goes_backwards_revives_nothing() {
        let mut window = Window::new(60_000);
        window.add(FAILURE, 0);
        window.add(FAILURE, 100_000);
        window.add(FAILURE, 5_000);
        assert_eq!(window.total().calls, 2);
    }

    #[test]
    fn memory_does_not_grow_with_the_number_of_calls() {
        let mut window = Window::new(60_000);
        (0..100_000).for_each(|now_ms| window.add(FAILURE, now_ms));
        assert_eq!(window.slots.len(), 61);
    }
}
