//! The state of the model: publishers, the tables of one lane, and its workers.

use onceward_message_log::cursor::{LaneCursor, TransactionSnapshot};
use std::collections::BTreeMap;

/// A message of a publisher's script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Message {
    pub id: u8,
    /// It has the ordering key. The model has only one key, which is enough to get the order wrong.
    pub keyed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    Waiting,
    Open { xid: u64, sent: usize },
    Committed { xid: u64 },
    Aborted,
}

/// A row of the log. Readers see it once its transaction has committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogEntry {
    pub seq: i64,
    pub xid: u64,
    pub message: Message,
}

/// A row of `lane_turn`, as columns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LanePosition {
    pub last_seq: i64,
    pub open: BTreeMap<u64, i64>,
    pub careful_until: i64,
}

impl LanePosition {
    pub fn cursor(&self) -> LaneCursor {
        LaneCursor { last_seq: self.last_seq, open: self.open.clone() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeferredKind {
    Retry,
    Parked,
    Leased,
}

/// Time is a choice: what is due later may become due at any step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Due {
    Never,
    Later,
    Now,
}

/// A row of `deferred`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeferredRow {
    pub id: u8,
    pub message: Message,
    pub kind: DeferredKind,
    pub due: Due,
    pub attempts: u8,
    pub lease: u8,
}

/// A message as a turn passes it to the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Delivery {
    pub message: Message,
    pub late: bool,
    pub attempt: u8,
    /// Id, lease number and attempts of its row among the deferred messages.
    pub row: Option<(u8, u8, u8)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Turn {
    /// The turn that was read; the next one is to be written.
    pub read: u8,
    /// The id that the turn took after reading. That transaction ends with the turn.
    pub own_xid: Option<u64>,
    pub after: LanePosition,
    pub careful: bool,
    pub deliveries: Vec<Delivery>,
    pub blocked: Vec<Delivery>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lease {
    pub id: u8,
    pub number: u8,
    pub message: Message,
    pub attempt: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Worker {
    Idle,
    InTurn(Turn),
    Performing(Vec<Lease>),
}

/// A message that was handled or is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Finished {
    pub message: Message,
    pub dead: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModelState {
    pub publishers: Vec<Phase>,
    pub next_xid: u64,
    /// The newest transaction that has ended, of a publisher or of a worker.
    pub newest_ended: u64,
    pub log: Vec<LogEntry>,
    /// Committed messages, in the order of the commits.
    pub committed: Vec<Message>,
    pub turns: BTreeMap<u8, LanePosition>,
    /// How many times the next turn was started.
    pub starts: u8,
    /// Deferred rows, in the order of their ids.
    pub deferred: Vec<DeferredRow>,
    pub next_id: u8,
    /// Sorted, because the identity of a worker does not matter.
    pub workers: Vec<Worker>,
    pub finished: Vec<Finished>,
    pub crashes_left: u8,
    pub expiries_left: u8,
}

impl ModelState {
    pub fn new(publishers: usize, workers: usize, crashes: u8, expiries: u8) -> Self {
        Self {
            publishers: vec![Phase::Waiting; publishers],
            next_xid: 1,
            newest_ended: 0,
            log: Vec::new(),
            committed: Vec::new(),
            turns: BTreeMap::new(),
            starts: 0,
            deferred: Vec::new(),
            next_id: 1,
            workers: vec![Worker::Idle; workers],
            finished: Vec::new(),
            crashes_left: crashes,
            expiries_left: expiries,
        }
    }

    /// Returns what `pg_current_snapshot()` would return now: it lists no open transaction from xmax on.
    pub fn snapshot(&self, taken_after: Option<u64>) -> TransactionSnapshot {
        let xmax = self.newest_ended + 1;
        let open = self.publishers.iter().filter_map(|phase| match phase {
            Phase::Open { xid, .. } => Some(*xid),
            _ => None,
        });
        let own = self.workers.iter().filter_map(|worker| match worker {
            Worker::InTurn(turn) => turn.own_xid,
            _ => None,
        });
        let mut listed: Vec<u64> = open.chain(own).filter(|xid| *xid < xmax).collect();
        listed.sort_unstable();
        let listed: Vec<String> = listed.iter().map(u64::to_string).collect();
        let text = format!("0:{xmax}:{}", listed.join(","));
        TransactionSnapshot::parse(&text, taken_after).expect("PostgreSQL's form")
    }

    /// Records that a transaction has committed or aborted.
    pub fn ended(&mut self, xid: u64) {
        self.newest_ended = self.newest_ended.max(xid);
    }

    /// Returns the rows of the log that a reader can see.
    pub fn visible(&self) -> impl Iterator<Item = &LogEntry> {
        self.log.iter().filter(|entry| self.publishers.contains(&Phase::Committed { xid: entry.xid }))
    }

    /// Returns the lane's last turn and the position it left.
    pub fn head(&self) -> (u8, LanePosition) {
        self.turns.last_key_value().map_or_else(Default::default, |(&turn, position)| (turn, position.clone()))
    }

    pub fn is_lane_locked(&self) -> bool {
        self.workers.iter().any(|worker| matches!(worker, Worker::InTurn(_)))
    }

    pub fn holds(&self, id: u8, number: u8) -> bool {
        self.workers.iter().any(|worker| match worker {
            Worker::Performing(leases) => leases.iter().any(|lease| (lease.id, lease.number) == (id, number)),
            _ => false,
        })
    }

    pub fn finish(&mut self, message: Message, dead: bool) {
        self.finished.push(Finished { message, dead });
    }
}
