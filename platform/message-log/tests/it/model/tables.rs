//! The effects of the migrations' functions on the tables.

use super::state::{DeferredKind, DeferredRow, Delivery, Due, LanePosition, ModelState};

/// The row of `redefer`: the new state of a deferred message.
pub struct Redefer {
    pub id: u8,
    pub kind: DeferredKind,
    pub due: Due,
    pub attempts: u8,
    pub lease: u8,
}

impl ModelState {
    /// `onceward.defer`. Returns the new row's id.
    pub fn defer(&mut self, delivery: &Delivery, kind: DeferredKind, due: Due, attempts: u8, lease: u8) -> u8 {
        let id = self.next_id;
        self.next_id += 1;
        let message = delivery.message;
        self.deferred.push(DeferredRow { id, message, kind, due, attempts, lease });
        id
    }

    /// `onceward.redefer`. A deleted row stays deleted.
    pub fn redefer(&mut self, rows: &[Redefer]) {
        for row in rows {
            if let Some(deferred) = self.deferred.iter_mut().find(|deferred| deferred.id == row.id) {
                *deferred =
                    DeferredRow { kind: row.kind, due: row.due, attempts: row.attempts, lease: row.lease, ..*deferred };
            }
        }
        for row in rows.iter().filter(|row| row.kind != DeferredKind::Parked) {
            if !self.deferred.iter().any(|deferred| deferred.id == row.id && deferred.message.keyed) {
                continue;
            }
            for follower in &mut self.deferred {
                if follower.message.keyed && follower.id > row.id && follower.kind == DeferredKind::Parked {
                    follower.due = Due::Never;
                }
            }
        }
    }

    /// `onceward.settle_deferred`.
    pub fn settle_deferred(&mut self, ids: &[u8], release: usize) {
        let before = self.deferred.len();
        let frees_key = self.deferred.iter().any(|row| row.message.keyed && ids.contains(&row.id));
        self.deferred.retain(|row| !ids.contains(&row.id));
        if self.deferred.len() == before || !frees_key {
            return;
        }
        let followers = self.deferred.iter_mut().filter(|row| row.message.keyed).take(release);
        for follower in followers.take_while(|row| row.kind == DeferredKind::Parked) {
            follower.due = Due::Now;
        }
    }

    /// Returns whether the lease is still held under this number.
    pub fn is_current(&self, id: u8, number: u8) -> bool {
        self.deferred.iter().any(|row| (row.id, row.lease, row.kind) == (id, number, DeferredKind::Leased))
    }

    /// `onceward.advance`: `false` is an error that rolls back the transaction. `primary_key_only` omits the check for
    /// later turns, whose predecessors are deleted and therefore no longer conflict.
    pub fn may_advance(&self, turn: u8, primary_key_only: bool) -> bool {
        !self.turns.contains_key(&turn) && (primary_key_only || self.turns.range(turn..).next().is_none())
    }

    pub fn advance(&mut self, turn: u8, position: LanePosition) {
        self.turns.insert(turn, position);
        self.turns.remove(&(turn - 1));
        self.starts = 0;
    }
}
