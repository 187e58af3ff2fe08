//! Properties of the lane's position: whatever the order of commits, every message is read once, and those of a key in
//! the order of their commits.

use onceward_message_log::cursor::{LaneCursor, MessageSource, TransactionSnapshot};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
enum Event {
    Begin,
    /// The nth open transaction publishes, with or without the key.
    Publish(usize, bool),
    /// The nth open transaction commits or aborts.
    End(usize, bool),
    /// The lane is read: the limit of each kind, and the limit in total.
    Turn(usize, usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => Just(Event::Begin),
        6 => (any::<usize>(), any::<bool>()).prop_map(|(nth, keyed)| Event::Publish(nth, keyed)),
        2 => (any::<usize>(), prop::bool::weighted(0.8)).prop_map(|(nth, commits)| Event::End(nth, commits)),
        3 => (1..4_usize, prop_oneof![Just(1), Just(usize::MAX)]).prop_map(|(limit, most)| Event::Turn(limit, most)),
    ]
}

#[derive(Clone, Copy)]
struct LogEntry {
    seq: i64,
    xid: u64,
    keyed: bool,
}

#[derive(Default)]
struct ModelLane {
    next_xid: u64,
    newest_ended: u64,
    open: BTreeSet<u64>,
    committed: BTreeSet<u64>,
    key_held_by: Option<u64>,
    log: Vec<LogEntry>,
    cursor: LaneCursor,
    read: Vec<i64>,
}

impl ModelLane {
    fn apply(&mut self, event: &Event) {
        match *event {
            Event::Begin => {
                self.open.insert(self.next_xid);
                self.next_xid += 1;
            }
            Event::Publish(nth, keyed) => {
                if let Some(xid) = self.nth_open(nth) {
                    self.publish(xid, keyed);
                }
            }
            Event::End(nth, commits) => {
                if let Some(xid) = self.nth_open(nth) {
                    self.end(xid, commits);
                }
            }
            Event::Turn(limit, most) => drop(self.turn(limit, most)),
        }
    }

    fn nth_open(&self, nth: usize) -> Option<u64> {
        self.open.iter().nth(nth.checked_rem(self.open.len())?).copied()
    }

    /// The key's lock is held to the end of the transaction; a publisher that does not get it publishes later.
    fn publish(&mut self, xid: u64, keyed: bool) {
        if keyed && *self.key_held_by.get_or_insert(xid) != xid {
            return;
        }
        let seq = self.log.len() as i64 + 1;
        self.log.push(LogEntry { seq, xid, keyed });
    }

    fn end(&mut self, xid: u64, commits: bool) {
        self.open.remove(&xid);
        self.newest_ended = self.newest_ended.max(xid);
        self.key_held_by = self.key_held_by.filter(|&holder| holder != xid);
        if commits {
            self.committed.insert(xid);
        }
    }

    fn found(&self, snapshot: &TransactionSnapshot, limit: usize) -> Vec<MessageSource> {
        let visible = || self.log.iter().filter(|entry| self.committed.contains(&entry.xid));
        let late = visible().filter(|entry| {
            let floor = self.cursor.open.get(&entry.xid);
            entry.seq <= self.cursor.last_seq
                && floor.is_some_and(|&floor| entry.seq > floor)
                && snapshot.has_ended(entry.xid)
        });
        let mut found: Vec<MessageSource> =
            late.take(limit).map(|&LogEntry { seq, .. }| MessageSource::Late { seq }).collect();
        let new = visible().filter(|entry| entry.seq > self.cursor.last_seq);
        found.extend(new.take(limit).map(|&LogEntry { seq, .. }| MessageSource::New { seq }));
        found
    }

    /// Returns the snapshot as PostgreSQL reports it: open transactions from xmax on are not listed.
    fn snapshot(&self, taken_after: Option<u64>) -> TransactionSnapshot {
        let xmax = self.newest_ended + 1;
        let listed: Vec<String> = self.open.range(..xmax).map(u64::to_string).collect();
        let text = format!("0:{xmax}:{}", listed.join(","));
        TransactionSnapshot::parse(&text, taken_after).expect("PostgreSQL's form")
    }

    /// Reads the lane. Returns `false` if it had no work.
    fn turn(&mut self, limit: usize, most: usize) -> bool {
        let found = self.found(&self.snapshot(None), limit);
        let own_xid = (!found.is_empty()).then_some(self.next_xid);
        let snapshot = self.snapshot(own_xid);
        if let Some(xid) = own_xid {
            self.next_xid += 1;
            self.newest_ended = xid;
        }
        let (count, progress) = self.cursor.take(&found, limit, most);
        self.read.extend(found[..count].iter().map(|source| match source {
            MessageSource::Late { seq } | MessageSource::New { seq } => *seq,
            MessageSource::Deferred => unreachable!("nothing is deferred here"),
        }));
        let after = through_columns(&self.cursor.after(&snapshot, &progress));
        let moved = after != self.cursor;
        self.cursor = after;
        moved
    }

    fn read_everything(&mut self, commits: &[bool]) {
        for (xid, commits) in self.open.clone().into_iter().zip(commits.iter().cycle()) {
            self.end(xid, *commits);
        }
        let most_turns = 3 * self.log.len() + 3;
        let turns = (0..most_turns).take_while(|_| self.turn(2, usize::MAX)).count();
        assert!(turns < most_turns, "the lane never becomes idle");
    }

    fn committed_numbers(&self, which: impl Fn(&LogEntry) -> bool) -> Vec<i64> {
        let committed = self.log.iter().filter(|entry| self.committed.contains(&entry.xid));
        committed.filter(|entry| which(entry)).map(|entry| entry.seq).collect()
    }
}

/// Every position is stored in the database and read again between two turns.
fn through_columns(cursor: &LaneCursor) -> LaneCursor {
    let floors: Vec<i64> = cursor.open.values().copied().collect();
    LaneCursor::from_columns(cursor.last_seq, &cursor.xids_text(), &floors).expect("our own text")
}

fn history(events: &[Event]) -> ModelLane {
    let mut lane = ModelLane { next_xid: 1, ..ModelLane::default() };
    events.iter().for_each(|event| lane.apply(event));
    lane
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_committed_message_is_read_exactly_once(
        events in prop::collection::vec(event(), 0..80),
        commits in prop::collection::vec(any::<bool>(), 1..4),
    ) {
        let mut lane = history(&events);
        lane.read_everything(&commits);
        let mut read = lane.read.clone();
        read.sort_unstable();
        prop_assert_eq!(read, lane.committed_numbers(|_| true));
        prop_assert_eq!(&lane.cursor.open, &BTreeMap::new());
    }

    #[test]
    fn messages_of_a_key_are_read_in_the_order_of_their_commits(
        events in prop::collection::vec(event(), 0..80),
        commits in prop::collection::vec(any::<bool>(), 1..4),
    ) {
        let mut lane = history(&events);
        lane.read_everything(&commits);
        // The key's lock ensures that the order of the numbers is the order of the commits.
        let keyed = lane.committed_numbers(|entry| entry.keyed);
        let read: Vec<i64> = lane.read.iter().copied().filter(|seq| keyed.contains(seq)).collect();
        prop_assert_eq!(read, keyed);
    }

    #[test]
    fn a_turn_that_takes_everything_leaves_only_open_transactions_to_be_watched(
        events in prop::collection::vec(event(), 0..80),
    ) {
        let mut lane = history(&events);
        lane.turn(usize::MAX, usize::MAX);
        prop_assert!(lane.cursor.open.keys().all(|xid| lane.open.contains(xid)));
        prop_assert!(lane.cursor.open.values().all(|&floor| floor <= lane.cursor.last_seq));
    }
}
