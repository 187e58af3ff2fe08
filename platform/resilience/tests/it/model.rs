//! Two or three processes and one destination as a model that is checked in every interleaving: calls that begin before
//! an opening, probes, crashes of the prober, votes that are lost. The breakers are the real ones.

use onceward_resilience::{
    Breaker, BreakerChange, BreakerSettings, Outcome, ProbeClaim, SharedBreaker, SharedPermission, SharedPhase, Ticket,
};
use stateright::{Checker, HasDiscoveries, Model, Property};

/// A rule broken on purpose, to verify that the checker notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BrokenRule {
    /// A result is reported as that of the newest call.
    ResultsWithoutGeneration,
    /// A probe is never replaced.
    ProbeWithoutLimit,
    /// Each worker of a process has a vote.
    VotesPerWorker,
}

#[derive(Clone, Debug)]
struct Cluster {
    processes: usize,
    crashes: u8,
    lost_votes: u8,
    /// Whether only the first process has trouble to reach the destination.
    one_bad_node: bool,
    until: u64,
    calls: u8,
    broken_rule: Option<BrokenRule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Permit {
    Own(Ticket),
    Shared(ProbeClaim),
}

/// A call in flight, and how often the breaker that admitted it had opened before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Call {
    permit: Permit,
    openings: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    breaker: Breaker,
    calls: Vec<Call>,
    openings: u8,
    /// Whether the shared breaker was open when this process looked last.
    saw_open: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ModelState {
    now: u64,
    is_down: bool,
    was_down: bool,
    shared: SharedBreaker,
    shared_openings: u8,
    processes: Vec<Process>,
    crashes_left: u8,
    lost_votes_left: u8,
    /// The breakers count calls, so a bound on them bounds the states.
    calls_left: u8,
    has_stale_close: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Begin(usize),
    Finish { process: usize, call: usize, succeeds: bool, loses_vote: bool },
    Crash(usize),
    Down,
    Up,
    Tick,
}

const CALLS_PER_PROCESS: usize = 2;

impl Cluster {
    fn new(processes: usize) -> Self {
        Self { processes, crashes: 1, lost_votes: 1, one_bad_node: false, until: 3, calls: 4, broken_rule: None }
    }

    fn settings(&self) -> BreakerSettings {
        let probe_limit_ms = if self.breaks(BrokenRule::ProbeWithoutLimit) { 1_000_000 } else { 1 };
        BreakerSettings {
            failures: 1,
            failure_percent: 0,
            window_ms: 60,
            pause_ms: 1,
            max_pause_ms: 2,
            jitter_percent: 0,
            probe_limit_ms,
            slow_start_until: 1,
            ..BreakerSettings::default()
        }
    }

    fn breaks(&self, rule: BrokenRule) -> bool {
        self.broken_rule == Some(rule)
    }

    fn process(&self) -> Process {
        Process { breaker: Breaker::new(self.settings()), calls: Vec::new(), openings: 0, saw_open: false }
    }

    /// Asks the shared breaker first and then the process's own, as a caller does.
    fn begin(&self, state: &mut ModelState, n: usize) -> bool {
        state.shared.expire(state.now);
        let (process, now) = (&mut state.processes[n], state.now);
        let permission = state.shared.permission(&self.settings(), now);
        if permission == SharedPermission::Own && process.saw_open {
            process.breaker.close();
        }
        process.saw_open = permission != SharedPermission::Own;
        let call = match permission {
            SharedPermission::Reject { .. } => None,
            SharedPermission::ClaimProbe => {
                let claim = state.shared.claim_probe(&name(n, 0), &self.settings(), now);
                claim.map(|claim| Call { permit: Permit::Shared(claim), openings: state.shared_openings })
            }
            SharedPermission::Own => {
                let ticket = process.breaker.try_acquire(now).ok();
                ticket.map(|ticket| Call { permit: Permit::Own(ticket), openings: process.openings })
            }
        };
        process.calls.extend(call);
        call.is_some()
    }

    fn finish(&self, state: &mut ModelState, n: usize, index: usize, outcome: Outcome, loses_vote: bool) {
        let call = state.processes[n].calls.remove(index);
        let newest = state.processes[n].calls.last().filter(|_| self.breaks(BrokenRule::ResultsWithoutGeneration));
        let permit = newest.map_or(call.permit, |newest| newest.permit);
        let (settings, now) = (self.settings(), state.now);
        match permit {
            Permit::Own(ticket) => match state.processes[n].breaker.complete(ticket, outcome, now, 0.5) {
                Some(BreakerChange::Opened { .. }) => {
                    state.processes[n].openings += 1;
                    self.vote(state, n, call, loses_vote);
                }
                Some(BreakerChange::ProbeFailed { .. }) => self.vote(state, n, call, loses_vote),
                Some(BreakerChange::Closed) => {
                    state.has_stale_close |= call.openings != state.processes[n].openings;
                    state.shared.withdraw_vote(&name(n, 0));
                }
                None => {}
            },
            Permit::Shared(claim) => {
                let is_stale = call.openings != state.shared_openings || matches!(call.permit, Permit::Own(_));
                let has_closed = state.shared.probe_done(claim, outcome, &settings, now, 0.5);
                state.has_stale_close |= has_closed && is_stale;
            }
        }
    }

    fn vote(&self, state: &mut ModelState, n: usize, call: Call, is_lost: bool) {
        if is_lost {
            state.lost_votes_left -= 1;
            return;
        }
        let worker = if self.breaks(BrokenRule::VotesPerWorker) { call.openings } else { 0 };
        let opened = state.shared.vote(&name(n, worker), 6, self.processes, &self.settings(), state.now, 0.5);
        state.shared_openings += u8::from(opened);
    }

    /// The destination is back, and everything in flight is lost: every process must be able to call again.
    fn recovers(&self, state: &ModelState) -> bool {
        let mut state = state.clone();
        state.is_down = false;
        for n in 0..self.processes {
            while !state.processes[n].calls.is_empty() {
                self.finish(&mut state, n, 0, Outcome::Unknown, false);
            }
        }
        for _ in 0..20 {
            state.now += 1;
            for n in 0..self.processes {
                if self.begin(&mut state, n) {
                    self.finish(&mut state, n, 0, Outcome::Success, false);
                }
            }
        }
        state.shared.expire(state.now);
        state.shared.is_idle() && state.processes.iter().all(|process| process.breaker.is_closed())
    }
}

fn name(process: usize, worker: u8) -> String {
    format!("{process}.{worker}")
}

impl Model for Cluster {
    type State = ModelState;
    type Action = Action;

    fn init_states(&self) -> Vec<ModelState> {
        vec![ModelState {
            now: 0,
            is_down: false,
            was_down: false,
            shared: SharedBreaker::new(0),
            shared_openings: 0,
            processes: vec![self.process(); self.processes],
            crashes_left: self.crashes,
            lost_votes_left: self.lost_votes,
            calls_left: self.calls,
            has_stale_close: false,
        }]
    }

    fn actions(&self, state: &ModelState, actions: &mut Vec<Action>) {
        for (n, process) in state.processes.iter().enumerate() {
            if process.calls.len() < CALLS_PER_PROCESS && state.calls_left > 0 {
                actions.push(Action::Begin(n));
            }
            let is_unreachable = state.is_down && (!self.one_bad_node || n == 0);
            for call in 0..process.calls.len() {
                // A call that began earlier may still succeed while the destination is down: its answer is on the way.
                actions.push(Action::Finish { process: n, call, succeeds: true, loses_vote: false });
                if is_unreachable {
                    actions.push(Action::Finish { process: n, call, succeeds: false, loses_vote: false });
                }
                if is_unreachable && state.lost_votes_left > 0 {
                    actions.push(Action::Finish { process: n, call, succeeds: false, loses_vote: true });
                }
            }
            if state.crashes_left > 0 && !process.calls.is_empty() {
                actions.push(Action::Crash(n));
            }
        }
        if state.is_down {
            actions.push(Action::Up);
        } else if !state.was_down {
            actions.push(Action::Down);
        }
        if state.now < self.until {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, last: &ModelState, action: Action) -> Option<ModelState> {
        let mut state = last.clone();
        match action {
            Action::Begin(n) => state.calls_left -= u8::from(self.begin(&mut state, n)),
            Action::Finish { process, call, succeeds, loses_vote } => {
                let outcome = if succeeds { Outcome::Success } else { Outcome::Failure };
                self.finish(&mut state, process, call, outcome, loses_vote);
                // The vote could be lost only if there was one.
                if loses_vote && state.lost_votes_left == last.lost_votes_left {
                    return None;
                }
            }
            Action::Crash(n) => {
                state.processes[n] = self.process();
                state.crashes_left -= 1;
            }
            Action::Down => (state.is_down, state.was_down) = (true, true),
            Action::Up => state.is_down = false,
            Action::Tick => state.now += 1,
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no stuck state", |model: &Self, state| model.recovers(state)),
            Property::always("no stale close", |_, state: &ModelState| !state.has_stale_close),
            Property::always("one bad node does not stop the others", |model: &Self, state: &ModelState| {
                !model.one_bad_node || state.shared.phase == SharedPhase::Watched
            }),
            Property::sometimes("all processes stop", |model: &Self, state: &ModelState| {
                model.one_bad_node || matches!(state.shared.phase, SharedPhase::Open { .. })
            }),
            Property::sometimes("the prober dies", |model: &Self, state: &ModelState| {
                let is_probing = matches!(state.shared.phase, SharedPhase::Probing { .. });
                let is_held = |call: &Call| matches!(call.permit, Permit::Shared(_));
                let probes = state.processes.iter().any(|process| process.calls.iter().any(is_held));
                model.one_bad_node || is_probing && !probes
            }),
        ]
    }
}

/// Returns the name of a property that was violated, if any.
fn violated(model: Cluster) -> Option<&'static str> {
    let properties: Vec<&'static str> = model.properties().iter().map(|property| property.name).collect();
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let found = checker.discoveries();
    let always = &properties[..3];
    always.iter().find(|name| found.contains_key(*name)).copied()
}

#[test]
fn two_processes_never_get_stuck_and_never_close_on_a_stale_result() {
    let checker = Cluster::new(2).checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
}

#[test]
fn one_bad_node_of_three_does_not_stop_the_others() {
    let model = Cluster { one_bad_node: true, until: 3, calls: 4, crashes: 0, lost_votes: 0, ..Cluster::new(3) };
    assert_eq!(violated(model), None);
}

#[test]
fn results_without_a_generation_are_found() {
    let broken_rule = Some(BrokenRule::ResultsWithoutGeneration);
    assert_eq!(violated(Cluster { broken_rule, ..Cluster::new(2) }), Some("no stale close"));
}

#[test]
fn a_probe_without_a_limit_is_found() {
    let broken_rule = Some(BrokenRule::ProbeWithoutLimit);
    assert_eq!(violated(Cluster { broken_rule, ..Cluster::new(2) }), Some("no stuck state"));
}

#[test]
fn votes_per_worker_are_found() {
    let broken_rule = Some(BrokenRule::VotesPerWorker);
    let model = Cluster { broken_rule, one_bad_node: true, crashes: 0, lost_votes: 0, ..Cluster::new(2) };
    assert_eq!(violated(model), Some("one bad node does not stop the others"));
}
