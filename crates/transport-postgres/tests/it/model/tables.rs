//! What the functions of the migrations do to the tables.

use super::world::{Aside, Deferred, Delivery, Due, Place, World};

/// The row of `redefer`: what becomes of a message put aside.
pub struct Redefer {
    pub id: u8,
    pub state: Aside,
    pub due: Due,
    pub attempts: u8,
    pub lease: u8,
}

impl World {
    /// `onceward.defer`. Gives the new row's id.
    pub fn defer(&mut self, delivery: &Delivery, state: Aside, due: Due, attempts: u8, lease: u8) -> u8 {
        let id = self.next_id;
        self.next_id += 1;
        let message = delivery.message;
        self.deferred.push(Deferred { id, message, state, due, attempts, lease });
        id
    }

    /// `onceward.redefer`. A row that is gone stays gone.
    pub fn redefer(&mut self, rows: &[Redefer]) {
        for row in rows {
            if let Some(deferred) = self.deferred.iter_mut().find(|deferred| deferred.id == row.id) {
                *deferred =
                    Deferred { state: row.state, due: row.due, attempts: row.attempts, lease: row.lease, ..*deferred };
            }
        }
        for row in rows.iter().filter(|row| row.state != Aside::Parked) {
            if !self.deferred.iter().any(|deferred| deferred.id == row.id && deferred.message.keyed) {
                continue;
            }
            for follower in &mut self.deferred {
                if follower.message.keyed && follower.id > row.id && follower.state == Aside::Parked {
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
        for follower in followers.take_while(|row| row.state == Aside::Parked) {
            follower.due = Due::Now;
        }
    }

    /// Does this lease still belong to whoever took it under this number?
    pub fn is_current(&self, id: u8, number: u8) -> bool {
        self.deferred.iter().any(|row| (row.id, row.lease, row.state) == (id, number, Aside::Leased))
    }

    /// `onceward.advance`: `false` is an error that undoes the transaction. `primary_key_only` leaves
    /// out the look for later turns, whose predecessors are deleted and so no longer in the way.
    pub fn may_advance(&self, turn: u8, primary_key_only: bool) -> bool {
        !self.turns.contains_key(&turn) && (primary_key_only || self.turns.range(turn..).next().is_none())
    }

    pub fn advance(&mut self, turn: u8, place: Place) {
        self.turns.insert(turn, place);
        self.turns.remove(&(turn - 1));
        self.starts = 0;
    }
}
