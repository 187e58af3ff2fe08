//! Where a lane stands: pure rules, checked by a model and by properties.
//!
//! Sequence numbers are not commit order: number 7 may become visible after number 9 was handled.
//! A lane therefore remembers, beside the last number it has read past, the transactions that were
//! still open in the snapshot it read with. Only those can still bring numbers at or below it. When
//! one of them has ended, its messages are looked for above its *floor*, the number the lane had
//! reached before the transaction was first seen.

use std::collections::BTreeMap;

/// A PostgreSQL snapshot, as `pg_current_snapshot()` prints it: `xmin:xmax:open,open,…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The first transaction id not yet given out.
    pub next: u64,
    /// Transactions below `next` that were open.
    pub open: Vec<u64>,
}

impl Snapshot {
    /// Reads PostgreSQL's text form.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let (_, next, open) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self {
            next: next.parse().ok()?,
            open: open
                .split(',')
                .filter(|id| !id.is_empty())
                .map(str::parse)
                .collect::<Result<_, _>>()
                .ok()?,
        })
    }

    /// Has this transaction ended, as far as the snapshot can see?
    pub fn has_ended(&self, xid: u64) -> bool {
        xid < self.next && !self.open.contains(&xid)
    }
}

/// A lane's place, as its last turn left it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneCursor {
    /// The lane was read up to this number.
    pub last_seq: i64,
    /// Transactions that may still bring numbers up to `last_seq`, with the floor of each.
    pub open: BTreeMap<u64, i64>,
}

/// What one turn took out of a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The highest new number taken.
    pub newest: Option<i64>,
    /// For each ended transaction of which late messages were taken: the highest number taken,
    /// and whether there may be more of them.
    pub late: BTreeMap<u64, (i64, bool)>,
}

/// How a turn found a message, in the order in which a lane is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Among those put aside: taking it does not move the lane.
    Aside,
    /// Behind the lane's place, brought by a transaction that was open when the lane was read past it.
    Late {
        /// The transaction.
        xid: u64,
        /// The message's number.
        seq: i64,
    },
    /// Beyond the lane's place.
    New {
        /// The message's number.
        seq: i64,
    },
}

impl LaneCursor {
    /// How many of what was `found` a turn takes, from the front, and what that means for the lane.
    /// `limit` bounded the search for each late transaction; `most` bounds the turn.
    ///
    /// Nothing new is taken while late messages remain. Otherwise the place would move past new
    /// messages of a transaction that is still searched, and they would be found again as late ones;
    /// and a new message could overtake a late one of its key.
    pub fn take(&self, found: &[Source], limit: usize, most: usize) -> (usize, Taken) {
        let mut count = most.min(found.len());
        let mut late: BTreeMap<u64, (i64, bool)> = BTreeMap::new();
        let mut seen: BTreeMap<u64, usize> = BTreeMap::new();
        for (index, source) in found.iter().enumerate() {
            let &Source::Late { xid, seq } = source else {
                continue;
            };
            let floor = self.open.get(&xid).copied().unwrap_or_default();
            let (reached, more) = late.entry(xid).or_insert((floor, false));
            let seen = seen.entry(xid).or_default();
            *seen += 1;
            if index < count {
                *reached = seq;
            }
            *more |= index >= count || *seen >= limit;
        }
        if late.values().any(|&(_, more)| more) {
            let old = found
                .iter()
                .take_while(|source| !matches!(source, Source::New { .. }))
                .count();
            count = count.min(old);
        }
        let newest = match found[..count].last() {
            Some(&Source::New { seq }) => Some(seq),
            _ => None,
        };
        (count, Taken { newest, late })
    }

    /// The place after a turn that read with `snapshot`.
    pub fn after(&self, snapshot: &Snapshot, taken: &Taken) -> Self {
        let mut open = BTreeMap::new();
        for (&xid, &floor) in &self.open {
            if !snapshot.has_ended(xid) {
                open.insert(xid, floor);
            } else if let Some(&(reached, true)) = taken.late.get(&xid) {
                open.insert(xid, reached);
            }
        }
        let Some(newest) = taken.newest else {
            // Transactions that began since the last turn have numbers above last_seq: not ours to watch.
            return Self {
                last_seq: self.last_seq,
                open,
            };
        };
        for &xid in &snapshot.open {
            open.entry(xid).or_insert(self.last_seq);
        }
        Self {
            last_seq: newest,
            open,
        }
    }

    /// The open transactions' ids as a PostgreSQL array.
    pub fn xids_text(&self) -> String {
        array_text(self.open.keys())
    }

    /// Their floors, in the same order.
    pub fn floors_text(&self) -> String {
        array_text(self.open.values())
    }

    /// From the columns of a turn.
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

    fn snapshot(next: u64, open: &[u64]) -> Snapshot {
        Snapshot {
            next,
            open: open.to_vec(),
        }
    }

    #[test]
    fn a_snapshot_is_read_from_its_text() {
        assert_eq!(
            Snapshot::parse("10:20:11,15"),
            Some(snapshot(20, &[11, 15]))
        );
        assert_eq!(Snapshot::parse("20:20:"), Some(snapshot(20, &[])));
        assert_eq!(Snapshot::parse("nonsense"), None);
    }

    #[test]
    fn an_open_transaction_is_watched_from_the_place_before_it_was_seen() {
        let start = LaneCursor {
            last_seq: 5,
            open: BTreeMap::new(),
        };
        let taken = Taken {
            newest: Some(9),
            ..Taken::default()
        };
        let next = start.after(&snapshot(20, &[12]), &taken);
        assert_eq!(
            next,
            LaneCursor {
                last_seq: 9,
                open: BTreeMap::from([(12, 5)])
            }
        );
    }

    #[test]
    fn a_lane_that_took_nothing_new_watches_nobody_new() {
        let start = LaneCursor {
            last_seq: 5,
            open: BTreeMap::from([(3, 1)]),
        };
        let next = start.after(&snapshot(20, &[12]), &Taken::default());
        assert_eq!(
            next,
            LaneCursor {
                last_seq: 5,
                open: BTreeMap::new()
            }
        );
    }

    #[test]
    fn late_messages_beyond_the_limit_are_taken_by_later_turns() {
        let start = LaneCursor {
            last_seq: 50,
            open: BTreeMap::from([(3, 1)]),
        };
        let taken = Taken {
            newest: None,
            late: BTreeMap::from([(3, (20, true))]),
        };
        let next = start.after(&snapshot(20, &[]), &taken);
        assert_eq!(next.open, BTreeMap::from([(3, 20)]));
    }

    #[test]
    fn nothing_new_is_taken_while_late_messages_remain() {
        let start = LaneCursor {
            last_seq: 10,
            open: BTreeMap::from([(3, 1)]),
        };
        let late = Source::Late { xid: 3, seq: 4 };
        let (count, taken) = start.take(&[late, Source::New { seq: 11 }], 1, usize::MAX);
        assert_eq!((count, taken.newest), (1, None));
        assert_eq!(taken.late, BTreeMap::from([(3, (4, true))]));
        let (count, taken) = start.take(&[late, Source::New { seq: 11 }], 2, usize::MAX);
        assert_eq!((count, taken.newest), (2, Some(11)));
        assert_eq!(taken.late, BTreeMap::from([(3, (4, false))]));
    }

    #[test]
    fn a_careful_turn_leaves_the_late_messages_it_did_not_take_to_be_found_again() {
        let start = LaneCursor {
            last_seq: 10,
            open: BTreeMap::from([(3, 1), (5, 2)]),
        };
        let found = [
            Source::Late { xid: 3, seq: 4 },
            Source::Late { xid: 5, seq: 6 },
        ];
        let (count, taken) = start.take(&found, 9, 1);
        assert_eq!((count, taken.newest), (1, None));
        assert_eq!(
            taken.late,
            BTreeMap::from([(3, (4, false)), (5, (2, true))])
        );
    }

    #[test]
    fn columns_round_trip() {
        let cursor = LaneCursor {
            last_seq: 7,
            open: BTreeMap::from([(3, 1), (9, 4)]),
        };
        let back = LaneCursor::from_columns(7, &cursor.xids_text(), &[1, 4]);
        assert_eq!(back, Some(cursor));
    }
}
