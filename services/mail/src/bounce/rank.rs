//! The state of a mail for one recipient, ordered so that events may arrive late, twice and in any order.

use serde::{Deserialize, Serialize};

/// How far a mail is. The state only rises: of two events the higher one decides, whichever arrives last.
///
/// ```text
/// queued < handed over < accepted < delivered < deferred < bounced < complained
/// ```
///
/// Deferred ranks above delivered because some systems report `delivered` for a hand-over to a relay that is then late;
/// a bounce after a delivery is the truth, and a complaint proves that a person has the mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryRank {
    /// Waits to be sent.
    Queued,
    /// Given to the provider; its answer is not known.
    HandedOver,
    /// The provider accepted it.
    Accepted,
    /// The recipient's system accepted it.
    Delivered,
    /// The recipient's system asked to try later.
    Deferred,
    /// It could not be delivered.
    Bounced,
    /// The recipient reported it as abuse.
    Complained,
}

impl DeliveryRank {
    /// Returns the state after an event.
    ///
    /// A delivery ends a deferral, which is the only exception from the order: the receiving system accepted the mail
    /// that it had deferred. `happened_later` says whether the event happened after the one that led to this state.
    pub fn after(self, event: DeliveryRank, happened_later: bool) -> DeliveryRank {
        match (self, event) {
            (Self::Deferred, Self::Delivered) if happened_later => Self::Delivered,
            (Self::Delivered, Self::Deferred) if !happened_later => Self::Delivered,
            _ => self.max(event),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [DeliveryRank; 7] = [
        DeliveryRank::Queued,
        DeliveryRank::HandedOver,
        DeliveryRank::Accepted,
        DeliveryRank::Delivered,
        DeliveryRank::Deferred,
        DeliveryRank::Bounced,
        DeliveryRank::Complained,
    ];

    #[test]
    fn the_states_are_in_order() {
        assert!(ALL.is_sorted());
    }

    #[test]
    fn an_event_that_arrives_twice_changes_nothing() {
        for (state, event) in ALL.into_iter().flat_map(|state| ALL.map(|event| (state, event))) {
            let once = state.after(event, true);
            assert_eq!(once.after(event, false), once, "{state:?} {event:?}");
        }
    }

    #[test]
    fn two_events_lead_to_the_same_state_in_either_order_of_arrival() {
        for (first, second) in ALL.into_iter().flat_map(|first| ALL.map(|second| (first, second))) {
            let in_order = DeliveryRank::Queued.after(first, true).after(second, true);
            let reversed = DeliveryRank::Queued.after(second, true).after(first, false);
            assert_eq!(in_order, reversed, "{first:?} {second:?}");
        }
    }

    #[test]
    fn a_bounce_after_a_delivery_counts_and_a_delivery_after_a_bounce_does_not() {
        assert_eq!(DeliveryRank::Delivered.after(DeliveryRank::Bounced, true), DeliveryRank::Bounced);
        assert_eq!(DeliveryRank::Bounced.after(DeliveryRank::Delivered, true), DeliveryRank::Bounced);
        assert_eq!(DeliveryRank::Deferred.after(DeliveryRank::Delivered, true), DeliveryRank::Delivered);
    }
}
