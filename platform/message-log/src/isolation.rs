//! Decides which lanes share a turn when one of them may contain a message that kills its worker.
//!
//! A suspicious lane gets turns of its own. Otherwise the lanes beside it would fail with it, their starts would be
//! counted against messages that did nothing wrong, and the delivery limit would turn those into dead letters.

/// A lane that was read for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneCandidate {
    /// A worker died in it, so its messages are handled one per turn.
    pub careful: bool,
    /// The lane has messages.
    pub has_messages: bool,
}

impl LaneCandidate {
    fn is_risky(self) -> bool {
        self.careful && self.has_messages
    }
}

/// Returns which of `lanes` are in the turn, in their order. Without a risky lane, all of them are. Otherwise it is
/// either one risky lane or all others. `prefer_risky` is called if both have work; it alternates, so that neither kind
/// starves.
pub(crate) fn lanes_in_turn(lanes: &[LaneCandidate], prefer_risky: impl FnOnce() -> bool) -> Vec<bool> {
    let Some(first_risky) = lanes.iter().position(|lane| lane.is_risky()) else {
        return vec![true; lanes.len()];
    };
    let others_have_work = lanes.iter().any(|lane| lane.has_messages && !lane.careful);
    let alone = !others_have_work || prefer_risky();
    lanes.iter().enumerate().map(|(at, lane)| if alone { at == first_risky } else { !lane.is_risky() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: LaneCandidate = LaneCandidate { careful: false, has_messages: true };
    const RISKY: LaneCandidate = LaneCandidate { careful: true, has_messages: true };
    const EMPTY: LaneCandidate = LaneCandidate { careful: true, has_messages: false };

    #[test]
    fn lanes_without_suspicion_share_a_turn() {
        assert_eq!(lanes_in_turn(&[CALM, EMPTY, CALM], || unreachable!("there is nothing to prefer")), [true; 3]);
        assert_eq!(lanes_in_turn(&[], || false), [true; 0]);
    }

    #[test]
    fn a_risky_lane_is_alone_in_its_turn_or_left_out() {
        let lanes = [CALM, RISKY, RISKY, EMPTY];
        assert_eq!(lanes_in_turn(&lanes, || true), [false, true, false, false]);
        assert_eq!(lanes_in_turn(&lanes, || false), [true, false, false, true]);
    }

    #[test]
    fn a_risky_lane_does_not_wait_for_empty_lanes() {
        assert_eq!(lanes_in_turn(&[EMPTY, RISKY], || false), [false, true]);
    }
}
