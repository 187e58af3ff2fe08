//! The slots of a process: how many turns and leased messages are handled at the same time, and who is next.
//!
//! A consumer belongs to a worker pool or to none. A pool has at most as many slots as its size in this process; all pools
//! together have at most `workers.slots`. If these do not suffice, a free slot goes
//!
//! 1. to a worker pool that has none, so that every pool with work gets on (its floor of one),
//! 2. to the consumer with the highest precedence: consumers with a lower one wait as long as it has work,
//! 3. to the pool that has the fewest slots in relation to its weight,
//! 4. to the one that has waited longest.

use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::oneshot;

/// The slots of a process; a clone shares them.
#[derive(Clone)]
pub struct Slots(Arc<Mutex<SlotTable>>);

/// The pool of a consumer, among the slots of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPool(usize);

impl SlotPool {
    /// The consumers that belong to no worker pool.
    pub const NONE: Self = Self(0);
}

struct SlotTable {
    /// The free slots; `None` means that their number is not limited.
    free: Option<usize>,
    pools: Vec<PoolSlots>,
    /// By order of arrival.
    waiting: BTreeMap<u64, SlotRequest>,
    arrivals: u64,
}

#[derive(Clone, Copy)]
struct PoolSlots {
    weight: u32,
    limit: usize,
    in_use: usize,
}

struct SlotRequest {
    pool: SlotPool,
    precedence: u8,
    sender: oneshot::Sender<Slot>,
}

/// The order in which requests are granted: the least first.
type Rank = (bool, std::cmp::Reverse<u8>, u64, u64);

/// The right to handle one turn or leased message; dropping it passes it to the next waiting consumer.
pub struct Slot(Option<(Arc<Mutex<SlotTable>>, SlotPool)>);

impl Slots {
    /// No limit: every consumer runs at its declared concurrency.
    pub fn unlimited() -> Self {
        Self::new(0)
    }

    /// Allows `count` turns or leased messages at once; 0 means unlimited.
    pub fn new(count: usize) -> Self {
        let without_pool = PoolSlots { weight: 1, limit: usize::MAX, in_use: 0 };
        Self(Arc::new(Mutex::new(SlotTable {
            free: (count > 0).then_some(count),
            pools: vec![without_pool],
            waiting: BTreeMap::new(),
            arrivals: 0,
        })))
    }

    /// Adds a worker pool of this size.
    pub fn add_pool(&self, weight: u32, size: usize) -> SlotPool {
        let mut table = self.0.lock();
        table.pools.push(PoolSlots { weight: weight.max(1), limit: size, in_use: 0 });
        SlotPool(table.pools.len() - 1)
    }

    /// Changes the size of a worker pool. A pool that shrinks lets its workers finish what they handle.
    pub fn resize(&self, pool: SlotPool, weight: u32, size: usize) {
        let mut table = self.0.lock();
        let slots = &mut table.pools[pool.0];
        (slots.weight, slots.limit) = (weight.max(1), size);
        grant(&self.0, &mut table);
    }

    /// Returns how many slots of a pool are in use.
    pub fn in_use(&self, pool: SlotPool) -> usize {
        self.0.lock().pools[pool.0].in_use
    }

    /// Returns the size of a pool in this process.
    pub fn limit(&self, pool: SlotPool) -> usize {
        self.0.lock().pools[pool.0].limit
    }

    /// Returns up to `most` of the free slots; if none is free, waits for the next one.
    pub async fn acquire(&self, pool: SlotPool, precedence: u8, most: usize) -> Vec<Slot> {
        let slot = {
            let mut table = self.0.lock();
            let available = table.available(pool).min(most);
            if available > 0 {
                table.take(pool, available);
                return (0..available).map(|_| Slot(Some((self.0.clone(), pool)))).collect();
            }
            let (sender, slot) = oneshot::channel();
            table.arrivals += 1;
            let arrival = table.arrivals;
            table.waiting.insert(arrival, SlotRequest { pool, precedence, sender });
            slot
        };
        slot.await.into_iter().collect()
    }

    /// For a consumer that has more work: keeps its slots, unless its pool has shrunk or another consumer goes first.
    pub async fn keep_or_yield(&self, slots: Vec<Slot>, pool: SlotPool, precedence: u8) -> Vec<Slot> {
        if self.0.lock().may_keep(pool, precedence) {
            return slots;
        }
        let most = slots.len();
        drop(slots);
        self.acquire(pool, precedence, most).await
    }
}

impl SlotTable {
    fn available(&self, pool: SlotPool) -> usize {
        let PoolSlots { limit, in_use, .. } = self.pools[pool.0];
        self.free.unwrap_or(usize::MAX).min(limit.saturating_sub(in_use))
    }

    fn take(&mut self, pool: SlotPool, count: usize) {
        self.pools[pool.0].in_use += count;
        if let Some(free) = &mut self.free {
            *free -= count;
        }
    }

    fn release(&mut self, pool: SlotPool) {
        self.pools[pool.0].in_use -= 1;
        if let Some(free) = &mut self.free {
            *free += 1;
        }
    }

    /// Returns the rank of a request of `pool`, as if `in_use` of its slots were in use.
    fn rank(&self, pool: SlotPool, in_use: usize, precedence: u8, arrival: u64) -> Rank {
        let has_floor = pool != SlotPool::NONE && in_use == 0;
        let by_weight = (in_use as u64 + 1).saturating_mul(1 << 20) / u64::from(self.pools[pool.0].weight);
        (!has_floor, std::cmp::Reverse(precedence), by_weight, arrival)
    }

    /// Returns the request that gets the next free slot, with its rank. `released` is the pool of a slot that would become
    /// free for it.
    fn next_request(&self, released: Option<SlotPool>) -> Option<(Rank, u64)> {
        let in_use = |pool: SlotPool| self.pools[pool.0].in_use - usize::from(released == Some(pool));
        let waiting = self.waiting.iter().filter(|(_, one)| in_use(one.pool) < self.pools[one.pool.0].limit);
        waiting.map(|(arrival, one)| (self.rank(one.pool, in_use(one.pool), one.precedence, *arrival), *arrival)).min()
    }

    /// Returns whether the holder of a slot goes before all that wait for it.
    fn may_keep(&self, pool: SlotPool, precedence: u8) -> bool {
        let PoolSlots { limit, in_use, .. } = self.pools[pool.0];
        if in_use > limit {
            return false;
        }
        // Without a limit for all, only requests of the same pool wait for this slot.
        let own = self.rank(pool, in_use - 1, precedence, u64::MAX);
        self.next_request(Some(pool)).is_none_or(|(rank, _)| own < rank)
    }
}

/// Grants free slots to those that wait.
fn grant(slots: &Arc<Mutex<SlotTable>>, table: &mut SlotTable) {
    while table.free != Some(0) {
        let Some((_, arrival)) = table.next_request(None) else {
            return;
        };
        let Some(SlotRequest { pool, sender, .. }) = table.waiting.remove(&arrival) else {
            return;
        };
        // Receivers that stopped waiting are skipped.
        match sender.send(Slot(Some((slots.clone(), pool)))) {
            Ok(()) => table.take(pool, 1),
            Err(mut unwanted) => drop(unwanted.0.take()),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some((slots, pool)) = self.0.take() {
            let mut table = slots.lock();
            table.release(pool);
            grant(&slots, &mut table);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, future::BoxFuture};

    const NONE: SlotPool = SlotPool::NONE;

    fn waits_in(slots: &Slots, pool: SlotPool, precedence: u8) -> BoxFuture<'static, Vec<Slot>> {
        let slots = slots.clone();
        let mut acquiring = async move { slots.acquire(pool, precedence, 1).await }.boxed();
        assert!((&mut acquiring).now_or_never().is_none(), "there was a free slot");
        acquiring
    }

    fn waits(slots: &Slots, precedence: u8) -> BoxFuture<'static, Vec<Slot>> {
        waits_in(slots, NONE, precedence)
    }

    fn take(slots: &Slots, pool: SlotPool, most: usize) -> Vec<Slot> {
        slots.acquire(pool, 0, most).now_or_never().expect("a slot is free")
    }

    #[test]
    fn without_a_limit_every_request_is_granted() {
        assert_eq!(take(&Slots::new(0), NONE, 7).len(), 7);
    }

    #[test]
    fn a_free_slot_goes_to_the_highest_precedence_and_then_to_the_longest_waiting() {
        let slots = Slots::new(1);
        let first = take(&slots, NONE, 5);
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
        let held = slots.acquire(NONE, 5, 1).now_or_never().unwrap();
        let mut low = waits(&slots, 1);
        let held = slots.keep_or_yield(held, NONE, 5).now_or_never().expect("only a lower rank waits");
        let mut equal = waits(&slots, 5);
        let mut back = slots.keep_or_yield(held, NONE, 5).boxed();
        assert!((&mut back).now_or_never().is_none(), "the equal one is next");
        drop((&mut equal).now_or_never().expect("the equal one is next"));
        drop((&mut back).now_or_never().expect("then it gets a slot again"));
        assert!((&mut low).now_or_never().is_some());
    }

    #[test]
    fn a_slot_offered_to_a_consumer_that_stopped_waiting_is_not_lost() {
        let slots = Slots::new(1);
        let first = take(&slots, NONE, 1);
        let (gone, mut stays) = (waits(&slots, 9), waits(&slots, 1));
        drop(gone);
        drop(first);
        drop((&mut stays).now_or_never().expect("it is next"));
        let held = take(&slots, NONE, 1);
        let offered = waits(&slots, 3);
        drop(held);
        // It was offered a slot and stopped waiting before it noticed.
        drop(offered);
        assert_eq!(take(&slots, NONE, 3).len(), 1);
    }

    #[test]
    fn a_pool_has_as_many_slots_as_its_size_and_a_shrinking_one_finishes_its_work() {
        let slots = Slots::unlimited();
        let pool = slots.add_pool(1, 2);
        let mut held = take(&slots, pool, 5);
        assert_eq!((held.len(), slots.in_use(pool)), (2, 2));
        let mut third = waits_in(&slots, pool, 0);
        slots.resize(pool, 1, 3);
        assert_eq!((&mut third).now_or_never().map(|slots| slots.len()), Some(1), "it grew");
        drop(third);
        slots.resize(pool, 1, 1);
        let one_too_many = vec![held.pop().unwrap()];
        let mut asked_to_finish = slots.keep_or_yield(one_too_many, pool, 0).boxed();
        assert!((&mut asked_to_finish).now_or_never().is_none(), "it is more than the pool's size");
        assert_eq!(slots.in_use(pool), 1);
        drop(held);
        assert!((&mut asked_to_finish).now_or_never().is_some());
    }

    #[test]
    fn a_pool_without_a_slot_goes_before_any_precedence() {
        let slots = Slots::new(2);
        let (urgent, mail) = (slots.add_pool(1, 10), slots.add_pool(1, 10));
        let mut held = slots.acquire(urgent, 9, 2).now_or_never().unwrap();
        let (mut more, mut floor) = (waits_in(&slots, urgent, 9), waits_in(&slots, mail, 0));
        drop(held.pop());
        assert_eq!((&mut floor).now_or_never().map(|slots| slots.len()), Some(1), "every pool has one");
        drop(held);
        assert!((&mut more).now_or_never().is_some());
    }

    #[test]
    fn pools_with_work_share_the_slots_by_their_weights() {
        let slots = Slots::new(8);
        let (heavy, light) = (slots.add_pool(3, 100), slots.add_pool(1, 100));
        let mut holders: Vec<(SlotPool, Vec<Slot>)> = (0..8).map(|_| (light, take(&slots, light, 1))).collect();
        let mut waiting: Vec<(SlotPool, BoxFuture<'static, Vec<Slot>>)> = Vec::new();
        waiting.extend((0..8).map(|_| (heavy, waits_in(&slots, heavy, 0))));
        for _ in 0..200 {
            let (pool, held) = holders.remove(0);
            let all = slots.clone();
            let mut keeping = async move { all.keep_or_yield(held, pool, 0).await }.boxed();
            match (&mut keeping).now_or_never() {
                Some(held) => holders.push((pool, held)),
                None => waiting.push((pool, keeping)),
            }
            let mut still = Vec::new();
            for (pool, mut request) in waiting {
                match (&mut request).now_or_never() {
                    Some(held) => holders.push((pool, held)),
                    None => still.push((pool, request)),
                }
            }
            waiting = still;
        }
        assert_eq!((slots.in_use(heavy), slots.in_use(light)), (6, 2));
    }
}
