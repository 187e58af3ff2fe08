//! Slots: how much one process handles at once over all its queues, and which consumer goes first if that is not
//! enough.
//!
//! A message's priority ranks it within its queue. A consumer's precedence ranks its whole queue above others: a free
//! slot goes to the waiting consumer with the highest precedence, and among equals to the one that has waited longest.
//! A consumer with low precedence waits as long as higher ones have work; that is intended.

use parking_lot::Mutex;
use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};
use tokio::sync::oneshot;

/// The slots of a process; a clone shares them.
#[derive(Clone)]
pub struct Slots(Option<Arc<Mutex<SlotTable>>>);

struct SlotTable {
    free: usize,
    /// By precedence, highest first, then in order of arrival.
    waiting: BTreeMap<(Reverse<u8>, u64), oneshot::Sender<Slot>>,
    arrivals: u64,
}

/// The right to handle one turn or leased message; dropping it passes it to the next waiting consumer.
pub struct Slot(Option<Arc<Mutex<SlotTable>>>);

impl Slots {
    /// No limit: every consumer runs at its declared concurrency.
    pub fn unlimited() -> Self {
        Self(None)
    }

    /// Allows `count` turns or leased messages at once; 0 means unlimited.
    pub fn new(count: usize) -> Self {
        let table = SlotTable { free: count, waiting: BTreeMap::new(), arrivals: 0 };
        Self((count > 0).then(|| Arc::new(Mutex::new(table))))
    }

    /// Returns up to `most` of the free slots; if none is free, waits for the next one.
    pub async fn acquire(&self, precedence: u8, most: usize) -> Vec<Slot> {
        let Some(table) = &self.0 else {
            return (0..most).map(|_| Slot(None)).collect();
        };
        let slot = {
            let mut state = table.lock();
            let free = state.free.min(most);
            if free > 0 {
                state.free -= free;
                return (0..free).map(|_| Slot(Some(table.clone()))).collect();
            }
            let (sender, slot) = oneshot::channel();
            state.arrivals += 1;
            let rank = (Reverse(precedence), state.arrivals);
            state.waiting.insert(rank, sender);
            slot
        };
        slot.await.into_iter().collect()
    }

    /// For a consumer that has more work: keeps its slots, unless a consumer of equal or higher precedence is waiting.
    pub async fn keep_or_yield(&self, slots: Vec<Slot>, precedence: u8) -> Vec<Slot> {
        let Some(table) = &self.0 else {
            return slots;
        };
        let next = table.lock().waiting.keys().next().copied();
        match next {
            Some((Reverse(theirs), _)) if theirs >= precedence => {
                let most = slots.len();
                drop(slots);
                self.acquire(precedence, most).await
            }
            _ => slots,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some(table) = self.0.take() else {
            return;
        };
        let mut state = table.lock();
        // Receivers that stopped waiting are skipped.
        while let Some((_, next)) = state.waiting.pop_first() {
            match next.send(Slot(Some(table.clone()))) {
                Ok(()) => return,
                Err(mut unwanted) => drop(unwanted.0.take()),
            }
        }
        state.free += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, future::BoxFuture};

    fn waits(slots: &Slots, precedence: u8) -> BoxFuture<'static, Vec<Slot>> {
        let slots = slots.clone();
        let mut acquiring = async move { slots.acquire(precedence, 1).await }.boxed();
        assert!((&mut acquiring).now_or_never().is_none(), "there was a free slot");
        acquiring
    }

    #[test]
    fn without_a_limit_every_request_is_granted() {
        let taken = Slots::new(0).acquire(0, 7).now_or_never().unwrap();
        assert_eq!(taken.len(), 7);
    }

    #[test]
    fn a_free_slot_goes_to_the_highest_precedence_and_then_to_the_longest_waiting() {
        let slots = Slots::new(1);
        let first = slots.acquire(0, 5).now_or_never().unwrap();
        assert_eq!(first.len(), 1);
        let (mut low, mut high, mut high_later) = (waits(&slots, 1), waits(&slots, 5), waits(&slots, 5));
        drop(first);
        let held = (&mut high).now_or_never().expect("the highest is next");
        assert!((&mut high_later).now_or_never().is_none() && (&mut low).now_or_never().is_none());
        drop(held);
        let held = (&mut high_later).now_or_never().expect("then the other one of equal precedence");
        drop(held);
        assert_eq!((&mut low).now_or_never().map(|slots| slots.len()), Some(1));
    }

    #[test]
    fn a_busy_consumer_keeps_its_slot_from_lower_ranks_and_shares_it_with_equal_ones() {
        let slots = Slots::new(1);
        let held = slots.acquire(5, 1).now_or_never().unwrap();
        let mut low = waits(&slots, 1);
        let held = slots.keep_or_yield(held, 5).now_or_never().expect("only a lower rank waits");
        let mut equal = waits(&slots, 5);
        let mut back = slots.keep_or_yield(held, 5).boxed();
        assert!((&mut back).now_or_never().is_none(), "the equal one is next");
        drop((&mut equal).now_or_never().expect("the equal one is next"));
        drop((&mut back).now_or_never().expect("then it gets a slot again"));
        assert!((&mut low).now_or_never().is_some());
    }

    #[test]
    fn a_slot_offered_to_a_consumer_that_stopped_waiting_is_not_lost() {
        let slots = Slots::new(1);
        let first = slots.acquire(0, 1).now_or_never().unwrap();
        let (gone, mut stays) = (waits(&slots, 9), waits(&slots, 1));
        drop(gone);
        drop(first);
        drop((&mut stays).now_or_never().expect("it is next"));
        let stopped_waiting = waits_after_offer(&slots);
        drop(stopped_waiting);
        assert_eq!(slots.acquire(0, 3).now_or_never().unwrap().len(), 1);
    }

    /// A consumer that was offered a slot and stopped waiting before it noticed.
    fn waits_after_offer(slots: &Slots) -> BoxFuture<'static, Vec<Slot>> {
        let held = slots.acquire(0, 1).now_or_never().unwrap();
        let acquiring = waits(slots, 3);
        drop(held);
        acquiring
    }
}
