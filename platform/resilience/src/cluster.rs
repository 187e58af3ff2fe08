//! The breaker that all processes share: who voted, who probes, and what an operator ordered.
//!
//! Each process has its own [`crate::Breaker`] and votes here when that opens. One process alone never stops the others:
//! its network may be the problem. When half of the processes agree, all stop calling, and one of them probes.
//!
//! ```text
//!     ┌─────────┐  votes ≥ max(2, half)   ┌──────┐  claim_probe, after the pause   ┌─────────┐
//!     │ watched │ ──────────────────────► │ open │ ──────────────────────────────► │ probing │ ──┐ claim_probe, after
//!     └─────────┘                         └──────┘ ◄────────────────────────────── └─────────┘ ◄─┘ the probe's limit
//!          ▲                                         it fails: twice the pause          │
//!          └────────────────────────────────────────────────────────────────────────────┘
//!                                         it succeeds: for all processes
//!     isolated: by an operator, until a time or until an operator closes it
//! ```
//!
//! Times are milliseconds of one clock that all processes share, which is the database's.

use crate::{BreakerSettings, Outcome};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Returns how many of the `live` processes that use a destination must have opened their breaker before all stop.
pub fn quorum(live: usize) -> usize {
    live.div_ceil(2).max(2)
}

/// What all processes agreed on about one destination.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SharedBreaker {
    /// Grows with every probe, opening and closing. It begins with the time, so that it does not repeat after the row
    /// was deleted.
    pub generation: u64,
    /// The state.
    pub phase: SharedPhase,
    /// The processes whose own breaker is open, each with the time at which the vote expires.
    pub votes: BTreeMap<String, u64>,
}

/// The state of a shared breaker.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "phase")]
pub enum SharedPhase {
    /// Each process decides for itself.
    Watched,
    /// Nobody calls until the pause is over.
    Open {
        /// The end of the pause.
        until_ms: u64,
        /// Its length, before jitter.
        pause_ms: u64,
    },
    /// One process calls, as the probe of all.
    Probing {
        /// The process.
        holder: String,
        /// Another probe may be made after this time.
        until_ms: u64,
        /// The pause before this probe.
        pause_ms: u64,
    },
    /// An operator rejects all calls.
    Isolated {
        /// The operator.
        by: String,
        /// The reason.
        why: String,
        /// When it ends; `None` means when an operator closes it.
        until_ms: Option<u64>,
    },
}

/// Whether a process may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedPermission {
    /// The process's own breaker decides.
    Own,
    /// The pause is over: a process that wants to call must claim the probe.
    ClaimProbe,
    /// No call for this long.
    Reject {
        /// The time to wait.
        retry_after_ms: u64,
    },
}

/// The right to make the one probe. Its result counts only while it is the newest claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbeClaim {
    generation: u64,
}

impl SharedBreaker {
    /// Creates a breaker that no process has voted on.
    pub fn new(now_ms: u64) -> Self {
        Self { generation: now_ms, phase: SharedPhase::Watched, votes: BTreeMap::new() }
    }

    /// Returns whether a process may call now.
    pub fn permission(&self, settings: &BreakerSettings, now_ms: u64) -> SharedPermission {
        match self.phase {
            SharedPhase::Watched => SharedPermission::Own,
            SharedPhase::Isolated { until_ms, .. } => match until_ms {
                None => SharedPermission::Reject { retry_after_ms: settings.pause_ms },
                Some(until_ms) if now_ms < until_ms => SharedPermission::Reject { retry_after_ms: until_ms - now_ms },
                Some(_) => SharedPermission::Own,
            },
            SharedPhase::Open { until_ms, .. } if now_ms < until_ms => {
                SharedPermission::Reject { retry_after_ms: until_ms - now_ms }
            }
            SharedPhase::Probing { until_ms, .. } if now_ms < until_ms => {
                SharedPermission::Reject { retry_after_ms: settings.probe_wait_ms(until_ms - now_ms) }
            }
            SharedPhase::Open { .. } | SharedPhase::Probing { .. } => SharedPermission::ClaimProbe,
        }
    }

    /// Records that the own breaker of `process` is open, for `valid_ms`. Returns whether this opened the breaker for
    /// all: `live` is the number of processes that use the destination. `random`, from 0 to 1, is the pause's jitter.
    pub fn vote(
        &mut self,
        process: &str,
        valid_ms: u64,
        live: usize,
        settings: &BreakerSettings,
        now_ms: u64,
        random: f64,
    ) -> bool {
        self.expire(now_ms);
        self.votes.insert(process.to_owned(), now_ms.saturating_add(valid_ms));
        // A vote of a process that is not counted yet must not lower the quorum.
        let opens = self.phase == SharedPhase::Watched && self.votes.len() >= quorum(live.max(self.votes.len()));
        if opens {
            self.open(settings.pause_ms, settings, now_ms, random);
        }
        opens
    }

    /// Records that the own breaker of `process` closed.
    pub fn withdraw_vote(&mut self, process: &str) {
        self.votes.remove(process);
    }

    /// Takes the right to probe, if the pause or the limit of the previous probe is over.
    pub fn claim_probe(&mut self, process: &str, settings: &BreakerSettings, now_ms: u64) -> Option<ProbeClaim> {
        let (SharedPhase::Open { until_ms, pause_ms } | SharedPhase::Probing { until_ms, pause_ms, .. }) = self.phase
        else {
            return None;
        };
        if now_ms < until_ms {
            return None;
        }
        let until_ms = now_ms.saturating_add(settings.probe_limit_ms);
        self.enter(SharedPhase::Probing { holder: process.to_owned(), until_ms, pause_ms });
        Some(ProbeClaim { generation: self.generation })
    }

    /// Reports the result of a probe. Returns whether it closed the breaker for all.
    pub fn probe_done(
        &mut self,
        claim: ProbeClaim,
        outcome: Outcome,
        settings: &BreakerSettings,
        now_ms: u64,
        random: f64,
    ) -> bool {
        let SharedPhase::Probing { pause_ms, .. } = self.phase else {
            return false;
        };
        // A claim that was replaced says nothing about the destination as it is now.
        if claim.generation != self.generation {
            return false;
        }
        match outcome {
            Outcome::Success => self.close(),
            Outcome::Failure => self.open(settings.next_pause_ms(pause_ms), settings, now_ms, random),
            Outcome::Throttled { retry_after_ms } => {
                let requested_ms = retry_after_ms.unwrap_or(0).min(settings.max_pause_ms);
                self.open(settings.next_pause_ms(pause_ms).max(requested_ms), settings, now_ms, random);
                // Jitter must not shorten the pause that was asked for.
                if let SharedPhase::Open { until_ms, .. } = &mut self.phase {
                    *until_ms = (*until_ms).max(now_ms.saturating_add(requested_ms));
                }
            }
            Outcome::Ignored => self.open(pause_ms, settings, now_ms, random),
            // Nobody knows whether the call still runs, so the next probe waits for the limit of this one.
            Outcome::Unknown => {}
        }
        outcome == Outcome::Success
    }

    /// Rejects all calls by order of an operator.
    pub fn isolate(&mut self, by: &str, why: &str, until_ms: Option<u64>) {
        self.enter(SharedPhase::Isolated { by: by.to_owned(), why: why.to_owned(), until_ms });
    }

    /// Closes the breaker for all.
    pub fn close(&mut self) {
        self.votes.clear();
        self.enter(SharedPhase::Watched);
    }

    /// Removes what has expired: votes, and an isolation with an end.
    pub fn expire(&mut self, now_ms: u64) {
        self.votes.retain(|_, until_ms| now_ms < *until_ms);
        if matches!(self.phase, SharedPhase::Isolated { until_ms: Some(until_ms), .. } if until_ms <= now_ms) {
            self.close();
        }
    }

    /// Returns whether an operator rejects all calls.
    pub fn is_isolated(&self) -> bool {
        matches!(self.phase, SharedPhase::Isolated { .. })
    }

    /// Returns whether there is nothing to remember.
    pub fn is_idle(&self) -> bool {
        self.phase == SharedPhase::Watched && self.votes.is_empty()
    }

    fn open(&mut self, pause_ms: u64, settings: &BreakerSettings, now_ms: u64, random: f64) {
        let until_ms = now_ms.saturating_add(settings.jittered_ms(pause_ms, random));
        self.enter(SharedPhase::Open { until_ms, pause_ms });
    }

    fn enter(&mut self, phase: SharedPhase) {
        self.generation += 1;
        self.phase = phase;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_JITTER: f64 = 0.5;
    const VALID_MS: u64 = 60_000;

    fn settings() -> BreakerSettings {
        BreakerSettings::default()
    }

    fn vote(breaker: &mut SharedBreaker, process: &str, live: usize, now_ms: u64) -> bool {
        breaker.vote(process, VALID_MS, live, &settings(), now_ms, NO_JITTER)
    }

    fn opened() -> SharedBreaker {
        let mut breaker = SharedBreaker::new(0);
        assert!(!vote(&mut breaker, "a", 2, 0) && vote(&mut breaker, "b", 2, 0));
        breaker
    }

    #[test]
    fn half_of_the_processes_and_at_least_two_are_a_quorum() {
        assert_eq!([0, 1, 2, 3, 4, 5, 8, 9].map(quorum), [2, 2, 2, 2, 2, 3, 4, 5]);
    }

    #[test]
    fn one_process_alone_never_stops_the_others() {
        for live in [0, 1, 2, 100] {
            let mut breaker = SharedBreaker::new(0);
            (0..10).for_each(|_| assert!(!vote(&mut breaker, "a", live, 0)));
            assert_eq!(breaker.permission(&settings(), 0), SharedPermission::Own);
        }
    }

    #[test]
    fn votes_expire_and_can_be_withdrawn() {
        let mut breaker = SharedBreaker::new(0);
        vote(&mut breaker, "a", 2, 0);
        assert!(!vote(&mut breaker, "b", 2, VALID_MS), "the first vote has expired");
        breaker.withdraw_vote("b");
        assert!(breaker.is_idle());
    }

    #[test]
    fn one_process_probes_after_the_pause_and_its_success_closes_for_all() {
        let mut breaker = opened();
        assert_eq!(breaker.permission(&settings(), 10_000), SharedPermission::Reject { retry_after_ms: 20_000 });
        assert_eq!(breaker.claim_probe("a", &settings(), 29_999), None);
        assert_eq!(breaker.permission(&settings(), 30_000), SharedPermission::ClaimProbe);
        let claim = breaker.claim_probe("a", &settings(), 30_000).expect("the pause is over");
        assert_eq!(breaker.claim_probe("b", &settings(), 30_000), None);
        assert!(breaker.probe_done(claim, Outcome::Success, &settings(), 30_100, NO_JITTER));
        assert!(breaker.is_idle());
    }

    #[test]
    fn a_probe_without_a_result_is_replaced_and_its_late_result_ignored() {
        let mut breaker = opened();
        let dead = breaker.claim_probe("a", &settings(), 30_000).expect("the pause is over");
        assert!(!breaker.probe_done(dead, Outcome::Unknown, &settings(), 30_000, NO_JITTER));
        assert_eq!(breaker.claim_probe("b", &settings(), 89_999), None);
        let next = breaker.claim_probe("b", &settings(), 90_000).expect("the limit is over");
        assert!(!breaker.probe_done(dead, Outcome::Success, &settings(), 90_001, NO_JITTER));
        assert!(matches!(&breaker.phase, SharedPhase::Probing { holder, .. } if holder == "b"));
        assert!(!breaker.probe_done(next, Outcome::Failure, &settings(), 100_000, NO_JITTER));
        assert_eq!(breaker.phase, SharedPhase::Open { until_ms: 160_000, pause_ms: 60_000 });
    }

    #[test]
    fn an_isolation_ends_at_its_time_or_by_an_operator_and_votes_do_not_end_it() {
        let mut breaker = SharedBreaker::new(0);
        breaker.isolate("ana", "their maintenance", Some(10_000));
        assert!(!vote(&mut breaker, "a", 2, 1) && !vote(&mut breaker, "b", 2, 1));
        assert_eq!(breaker.claim_probe("a", &settings(), 1_000_000), None);
        assert_eq!(breaker.permission(&settings(), 9_000), SharedPermission::Reject { retry_after_ms: 1_000 });
        breaker.expire(10_000);
        assert!(breaker.is_idle());
        breaker.isolate("ana", "their maintenance", None);
        assert_eq!(breaker.permission(&settings(), u64::MAX), SharedPermission::Reject { retry_after_ms: 30_000 });
        breaker.close();
        assert!(breaker.is_idle());
    }

    #[test]
    fn a_probe_that_was_throttled_or_ignored_does_not_close() {
        for (outcome, pause_ms) in [
            (Outcome::Throttled { retry_after_ms: Some(100_000) }, 100_000),
            (Outcome::Throttled { retry_after_ms: None }, 60_000),
            (Outcome::Ignored, 30_000),
        ] {
            let mut breaker = opened();
            let claim = breaker.claim_probe("a", &settings(), 30_000).expect("the pause is over");
            assert!(!breaker.probe_done(claim, outcome, &settings(), 30_000, NO_JITTER));
            assert_eq!(breaker.phase, SharedPhase::Open { until_ms: 30_000 + pause_ms, pause_ms });
        }
    }
}
