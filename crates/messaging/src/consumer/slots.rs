//! Slots: how much one process works on at once over all its queues, and who goes first when that is not enough.
//!
//! A message's priority ranks it within its queue. A consumer's precedence ranks its whole queue over others: a free slot
//! goes to the waiting consumer of the highest precedence, and among equals to the one that waited longest. A consumer of
//! low precedence waits as long as higher ones have work; that is what it means.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::{Arc, Mutex},
};
use tokio::sync::oneshot;

/// The slots of a process; a clone shares them.
#[derive(Clone)]
pub struct Slots(Option<Arc<Mutex<Table>>>);

struct Table {
    free: usize,
    /// By precedence, highest first, then in the order of their coming.
    waiting: BTreeMap<(Reverse<u8>, u64), oneshot::Sender<Slot>>,
    came: u64,
}

/// A place to work; dropping it gives it to whoever is next.
pub struct Slot(Option<Arc<Mutex<Table>>>);

impl Slots {
    /// Everybody works as much as they declare.
    pub fn unlimited() -> Self {
        Self(None)
    }

    /// `count` turns or leased messages at once; 0 is unlimited.
    pub fn new(count: usize) -> Self {
        let table = Table { free: count, waiting: BTreeMap::new(), came: 0 };
        Self((count > 0).then(|| Arc::new(Mutex::new(table))))
    }

    /// Up to `most` of the slots that are free, or the next one that will be.
    pub async fn enter(&self, precedence: u8, most: usize) -> Vec<Slot> {
        let Some(table) = &self.0 else {
            return (0..most).map(|_| Slot(None)).collect();
        };
        let turn = {
            let mut state = table.lock().expect("no panic while held");
            let free = state.free.min(most);
            if free > 0 {
                state.free -= free;
                return (0..free).map(|_| Slot(Some(table.clone()))).collect();
            }
            let (sender, turn) = oneshot::channel();
            state.came += 1;
            let place = (Reverse(precedence), state.came);
            state.waiting.insert(place, sender);
            turn
        };
        turn.await.into_iter().collect()
    }

    /// For a consumer that has more to do: keeps its slot unless one of its rank or above waits for it.
    pub async fn again(&self, slots: Vec<Slot>, precedence: u8) -> Vec<Slot> {
        let Some(table) = &self.0 else {
            return slots;
        };
        let next = table.lock().expect("no panic while held").waiting.keys().next().copied();
        match next {
            Some((Reverse(theirs), _)) if theirs >= precedence => {
                let most = slots.len();
                drop(slots);
                self.enter(precedence, most).await
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
        let mut state = table.lock().expect("no panic while held");
        // Whoever gave up waiting is passed over.
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
        let mut entering = async move { slots.enter(precedence, 1).await }.boxed();
        assert!((&mut entering).now_or_never().is_none(), "there was a free slot");
        entering
    }

    #[test]
    fn without_a_limit_everybody_gets_what_they_ask_for() {
        let taken = Slots::new(0).enter(0, 7).now_or_never().unwrap();
        assert_eq!(taken.len(), 7);
    }

    #[test]
    fn a_free_slot_goes_to_the_highest_precedence_and_then_to_who_waited_longest() {
        let slots = Slots::new(1);
        let first = slots.enter(0, 5).now_or_never().unwrap();
        assert_eq!(first.len(), 1);
        let (mut low, mut high, mut high_later) = (waits(&slots, 1), waits(&slots, 5), waits(&slots, 5));
        drop(first);
        let held = (&mut high).now_or_never().expect("the highest is next");
        assert!((&mut high_later).now_or_never().is_none() && (&mut low).now_or_never().is_none());
        drop(held);
        let held = (&mut high_later).now_or_never().expect("then the other of its kind");
        drop(held);
        assert_eq!((&mut low).now_or_never().map(|slots| slots.len()), Some(1));
    }

    #[test]
    fn whoever_has_more_to_do_keeps_the_slot_from_lower_ranks_and_shares_it_with_its_own() {
        let slots = Slots::new(1);
        let held = slots.enter(5, 1).now_or_never().unwrap();
        let mut low = waits(&slots, 1);
        let held = slots.again(held, 5).now_or_never().expect("only a lower rank waits");
        let mut equal = waits(&slots, 5);
        let mut back = slots.again(held, 5).boxed();
        assert!((&mut back).now_or_never().is_none(), "it is the other's turn");
        drop((&mut equal).now_or_never().expect("its equal is next"));
        drop((&mut back).now_or_never().expect("then it is back"));
        assert!((&mut low).now_or_never().is_some());
    }

    #[test]
    fn a_slot_offered_to_somebody_who_left_is_not_lost() {
        let slots = Slots::new(1);
        let first = slots.enter(0, 1).now_or_never().unwrap();
        let (gone, mut stays) = (waits(&slots, 9), waits(&slots, 1));
        drop(gone);
        drop(first);
        drop((&mut stays).now_or_never().expect("it is next"));
        let leaves_with_it = waits_after_offer(&slots);
        drop(leaves_with_it);
        assert_eq!(slots.enter(0, 3).now_or_never().unwrap().len(), 1);
    }

    /// Somebody who was given a slot and left before looking.
    fn waits_after_offer(slots: &Slots) -> BoxFuture<'static, Vec<Slot>> {
        let held = slots.enter(0, 1).now_or_never().unwrap();
        let entering = waits(slots, 3);
        drop(held);
        entering
    }
}
