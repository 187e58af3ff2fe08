//! The position of a lane: pure rules, checked by a model and by properties.
//!
//! Sequence numbers are not commit order: number 7 may become visible after number 9 was handled. A lane therefore
//! remembers, besides the last number it has read past, the transactions that were still open in the snapshot it read
//! with. Only those can still commit numbers at or below it. When one of them has ended, its messages are searched
//! above its *floor*, the number the lane had reached before the transaction was first seen.
//!
//! A snapshot does not list every open transaction: those that began after the newest one to end are only known to be
//! "from xmax on". So a reader takes an id of its own after the snapshot and counts everything between xmax and that id
//! as open. Relays append nothing, so they need not watch each other.

use std::collections::BTreeMap;

/// What a reader knows about concurrent transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionSnapshot {
    /// The snapshot's xmax: one past the newest transaction that had ended.
    pub xmax: u64,
    /// Transactions that were open, or may have been.
    pub open: Vec<u64>,
}

impl TransactionSnapshot {
    /// Parses the text of `pg_current_snapshot()`, `xmin:xmax:open,open,…`. `taken_after` is an id that the reader took
    /// after it; without one, nothing was read.
    pub fn parse(text: &str, taken_after: Option<u64>) -> Option<Self> {
        let mut parts = text.split(':');
        let (_, xmax, listed) = (parts.next()?, parts.next()?, parts.next()?);
        let xmax: u64 = xmax.parse().ok()?;
        let mut open: Vec<u64> =
            listed.split(',').filter(|id| !id.is_empty()).map(str::parse).collect::<Result<_, _>>().ok()?;
        open.extend(xmax..taken_after.unwrap_or(xmax));
        Some(Self { xmax, open })
    }

    /// Returns the snapshot without the `quiet` transactions, which publish no messages.
    pub fn without(mut self, quiet: &[u64]) -> Self {
        self.open.retain(|xid| !quiet.contains(xid));
        self
    }

    /// Returns whether this transaction had certainly ended.
    pub fn has_ended(&self, xid: u64) -> bool {
        xid < self.xmax && !self.open.contains(&xid)
    }
}

/// A lane's position, as its last turn left it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneCursor {
    /// The lane was read up to this number.
    pub last_seq: i64,
    /// Transactions that may still commit numbers up to `last_seq`, each with its floor.
    pub open: BTreeMap<u64, i64>,
}

/// How far one turn read a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneProgress {
    /// The highest new number that was read; `None` if no new message was.
    pub newest: Option<i64>,
    /// Late messages remain above this number; `None` if all were read.
    pub late_until: Option<i64>,
}

/// How a turn found a message, in the order in which a lane is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSource {
    /// Among the deferred messages: taking it does not move the lane.
    Deferred,
    /// Behind the lane's position, from a transaction that was open when the lane was read past it.
    Late {
        /// The message's number.
        seq: i64,
    },
    /// Beyond the lane's position.
    New {
        /// The message's number.
        seq: i64,
    },
}

impl LaneCursor {
    /// Returns how many of the `found` messages a turn takes, from the front, and what that means for the lane. `limit`
    /// bounded the search for late messages; `most` bounds the turn.
    ///
    /// Nothing new is taken while late messages remain. Otherwise the position would move past new messages of a
    /// transaction that is still searched, and they would be found again as late ones; and a new message could overtake
    /// a late one of its key.
    pub fn take(&self, found: &[MessageSource], limit: usize, most: usize) -> (usize, LaneProgress) {
        let late = |source: &MessageSource| matches!(source, MessageSource::Late { .. });
        let all_late = found.iter().filter(|source| late(source)).count();
        let old = found.iter().take_while(|source| !matches!(source, MessageSource::New { .. })).count();
        let mut count = most.min(found.len());
        let mut late_until = None;
        if all_late >= limit || count < old {
            count = count.min(old);
            let reached = found[..count].iter().rev().find_map(|source| match source {
                MessageSource::Late { seq } => Some(*seq),
                _ => None,
            });
            late_until = Some(reached.unwrap_or(0));
        }
        let newest = match found[..count].last() {
            Some(&MessageSource::New { seq }) => Some(seq),
            _ => None,
        };
        (count, LaneProgress { newest, late_until })
    }

    /// Returns the position after a turn that read with `snapshot`.
    pub fn after(&self, snapshot: &TransactionSnapshot, progress: &LaneProgress) -> Self {
        let mut open = BTreeMap::new();
        for (&xid, &floor) in &self.open {
            match progress.late_until {
                _ if !snapshot.has_ended(xid) => drop(open.insert(xid, floor)),
                Some(reached) => drop(open.insert(xid, floor.max(reached))),
                None => {}
            }
        }
        let Some(newest) = progress.newest else {
            // Transactions that began since the last turn have numbers above last_seq, so they need not be watched.
            return Self { last_seq: self.last_seq, open };
        };
        for &xid in &snapshot.open {
            open.entry(xid).or_insert(self.last_seq);
        }
        Self { last_seq: newest, open }
    }

    /// Returns the open transactions' ids as a PostgreSQL array.
    pub fn xids_text(&self) -> String {
        array_text(self.open.keys())
    }

    /// Returns their floors, in the same order.
    pub fn floors_text(&self) -> String {
        array_text(self.open.values())
    }

    /// Builds the position from the columns of a turn. Returns `None` if they cannot be parsed.
    pub fn from_columns(last_seq: i64, xids: &str, floors: &[i64]) -> Option<Self> {
        let open = xids
            .trim_matches(['{', '}'])
            .split(',')
            .filter(|id| !id.is_empty())
            .map(str::parse)
            .zip(floors)
            .map(|(xid, &floor)| xid.map(|xid| (xid, floor)))
            .collect::<Result<_, _>>()
            .ok()?;
        Some(Self { last_seq, open })
    }
}

fn array_text<T: ToString>(items: impl Iterator<Item = T>) -> String {
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    format!("{{{}}}", items.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(xmax: u64, open: &[u64]) -> TransactionSnapshot {
        TransactionSnapshot { xmax, open: open.to_vec() }
    }

    fn cursor(last_seq: i64, open: &[(u64, i64)]) -> LaneCursor {
        LaneCursor { last_seq, open: open.iter().copied().collect() }
    }

    #[test]
    fn a_snapshot_is_parsed_from_its_text() {
        let parsed = TransactionSnapshot::parse("10:20:11,15", None);
        assert_eq!(parsed, Some(snapshot(20, &[11, 15])));
        assert_eq!(TransactionSnapshot::parse("20:20:", None), Some(snapshot(20, &[])));
        assert_eq!(TransactionSnapshot::parse("nonsense", None), None);
    }

    #[test]
    fn transactions_that_a_snapshot_does_not_list_count_as_open() {
        let parsed = TransactionSnapshot::parse("10:20:11", Some(23)).unwrap();
        assert_eq!(parsed, snapshot(20, &[11, 20, 21, 22]));
        assert!(!parsed.has_ended(21) && !parsed.has_ended(23) && parsed.has_ended(19));
    }

    #[test]
    fn transactions_that_publish_nothing_are_not_watched() {
        let parsed = TransactionSnapshot::parse("1:20:11,15", Some(22)).unwrap();
        assert_eq!(parsed.without(&[15, 21]), snapshot(20, &[11, 20]));
    }

    #[test]
    fn an_open_transaction_is_watched_from_the_position_before_it_was_seen() {
        let (_, progress) = cursor(5, &[]).take(&[MessageSource::New { seq: 9 }], 10, usize::MAX);
        let next = cursor(5, &[]).after(&snapshot(20, &[12]), &progress);
        assert_eq!(next, cursor(9, &[(12, 5)]));
    }

    #[test]
    fn a_turn_without_new_messages_watches_no_new_transactions() {
        let next = cursor(5, &[(3, 1)]).after(&snapshot(20, &[12]), &LaneProgress::default());
        assert_eq!(next, cursor(5, &[]));
    }

    #[test]
    fn late_messages_beyond_the_limit_are_taken_by_later_turns_and_nothing_new_before_them() {
        let start = cursor(50, &[(3, 1), (4, 30)]);
        let found = [MessageSource::Late { seq: 10 }, MessageSource::Late { seq: 20 }, MessageSource::New { seq: 51 }];
        let (count, progress) = start.take(&found, 2, usize::MAX);
        assert_eq!((count, progress.newest, progress.late_until), (2, None, Some(20)));
        let next = start.after(&snapshot(20, &[]), &progress);
        assert_eq!(next, cursor(50, &[(3, 20), (4, 30)]));
    }

    #[test]
    fn a_turn_of_one_message_leaves_the_late_ones_it_did_not_take() {
        let start = cursor(50, &[(3, 1)]);
        let found = [MessageSource::Deferred, MessageSource::Late { seq: 10 }];
        let (count, progress) = start.take(&found, 9, 1);
        assert_eq!((count, progress.late_until), (1, Some(0)));
        assert_eq!(start.after(&snapshot(20, &[]), &progress), start);
    }

    #[test]
    fn columns_round_trip() {
        let cursor = cursor(7, &[(3, 1), (9, 4)]);
        let back = LaneCursor::from_columns(7, &cursor.xids_text(), &[1, 4]);
        assert_eq!(back, Some(cursor));
    }
}
