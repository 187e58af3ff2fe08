//! Respondents' steps go through together: those of one tenant that come while others are on their way share a transaction.
//!
//! ```text
//! request ── joins its tenant's line ──────────────── waits for its answer
//!               └ a lone step goes at once;      ▲
//!                 else a group that comes back   │ after the commit
//!                 takes what waits ── group ─────┘
//! ```
//!
//! Nobody waits for a group to become large: it is as large as the line became while the ones before were on their way. A commit
//! and a bucket's lock are then paid once for all of them, and an idle service is as quick as without. A group walks in a task
//! of its own, so that a request that is cut off cuts nobody else's step.
//!
//! `line` is who waits, without I/O. `group` is the transaction: lock all, decide each, write all, tell each.
//!
//! Invariant: a session has one step on its way in a process, and its steps go in the order in which they came.

mod group;
mod line;

use super::{Desk, commands::Step};
use crate::{Settings, SurveyError};
use futures_util::FutureExt;
use line::Line;
use metrics::{counter, describe_counter, describe_gauge, gauge};
use onceward::{Db, DbError, Scope, TenantId};
use serde_json::Value;
use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::oneshot;
use uuid::Uuid;

/// No group takes longer; who asked has been told to come again by then.
const PATIENCE: Duration = Duration::from_secs(30);
const STEPS: &str = "surveys_steps_total";
const GROUPS: &str = "surveys_step_groups_total";
const WAITING: &str = "surveys_steps_waiting";

pub(crate) fn describe() {
    describe_counter!(STEPS, "Steps of respondents that went through");
    describe_counter!(GROUPS, "Groups in which they went, each a transaction");
    describe_gauge!(WAITING, "Steps of respondents that wait for the groups before them");
}

/// The lines of all tenants that have one.
pub(crate) struct Turnstile {
    lines: Mutex<HashMap<TenantId, Line<Waiting>>>,
    waiting_max: usize,
}

/// A step, and who waits for its answer.
struct Waiting {
    scope: Scope,
    step: Step,
    answer: oneshot::Sender<Result<Value, SurveyError>>,
}

/// Takes a step, and gives its answer once it is committed. How long that may take is the request's own bound.
pub(super) async fn pass(
    desk: &Arc<Desk>,
    db: &Db,
    scope: Scope,
    session_id: Uuid,
    step: Step,
) -> Result<Value, SurveyError> {
    let tenant = scope.tenant.clone().ok_or(SurveyError::Missing("tenant"))?;
    let (answer, heard) = oneshot::channel();
    if let Some(first) = desk.turnstile.join(&tenant, session_id, Waiting { scope, step, answer })? {
        tokio::spawn(walk(Walk::of(desk.clone(), tenant, &first), db.clone(), first));
    }
    // Nobody answered: the group panicked or was stopped, and its commit may have been under way.
    heard.await.unwrap_or(Err(SurveyError::Db(DbError::OutcomeUnknown)))
}

/// Group after group, until nobody waits.
async fn walk(mut walk: Walk, db: Db, first: Group) {
    let mut next = Some(first);
    while let Some(group) = next {
        counter!(STEPS).increment(group.len() as u64);
        counter!(GROUPS).increment(1);
        let going = AssertUnwindSafe(group::go_through(&walk.desk, &db, group)).catch_unwind();
        match tokio::time::timeout(PATIENCE, going).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => tracing::error!(tenant = %walk.tenant, "a group of steps panicked"),
            Err(_) => tracing::warn!(tenant = %walk.tenant, "a group of steps took too long and was stopped"),
        }
        next = walk.next();
    }
}

/// Steps that go together, each with its session.
type Group = Vec<(Uuid, Waiting)>;

impl Turnstile {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { lines: Mutex::default(), waiting_max: settings.steps_waiting_max.max(1) }
    }

    /// Gives a group that may go now, if there is one.
    fn join(&self, tenant: &TenantId, session_id: Uuid, step: Waiting) -> Result<Option<Group>, SurveyError> {
        self.with(tenant, |line| {
            line.join(session_id, step, self.waiting_max).map_err(|_| SurveyError::Crowded)?;
            Ok(line.begin())
        })
    }

    /// A tenant has a line while somebody waits or is on their way.
    fn with<T>(&self, tenant: &TenantId, change: impl FnOnce(&mut Line<Waiting>) -> T) -> T {
        let mut lines = self.lines.lock().expect("no panic while held");
        let line = lines.entry(tenant.clone()).or_default();
        let before = line.len();
        let changed = change(line);
        gauge!(WAITING).increment(line.len() as f64 - before as f64);
        if line.is_idle() {
            lines.remove(tenant);
        }
        changed
    }
}

impl line::Wait for Waiting {
    fn is_over(&self) -> bool {
        self.answer.is_closed()
    }
}

/// The groups of one task. Dropped early, by whatever, it leaves the line to others.
struct Walk {
    desk: Arc<Desk>,
    tenant: TenantId,
    /// Whose steps are on their way.
    sessions: Vec<Uuid>,
    over: bool,
}

impl Walk {
    fn of(desk: Arc<Desk>, tenant: TenantId, first: &Group) -> Self {
        Self { desk, tenant, sessions: ids(first), over: false }
    }

    fn next(&mut self) -> Option<Group> {
        let arrived = std::mem::take(&mut self.sessions);
        let next = self.desk.turnstile.with(&self.tenant, |line| line.go_on(&arrived));
        match &next {
            Some(group) => self.sessions = ids(group),
            None => self.over = true,
        }
        next
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        if !self.over {
            self.desk.turnstile.with(&self.tenant, |line| line.give_up(&self.sessions));
        }
    }
}

fn ids(group: &Group) -> Vec<Uuid> {
    group.iter().map(|(session_id, _)| *session_id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_group_that_is_dropped_tells_its_requests_and_leaves_no_line_behind() {
        let desk = Arc::new(Desk::new(Arc::default()));
        let tenant = TenantId::new("acme").unwrap();
        let lines = || desk.turnstile.lines.lock().unwrap().len();
        let (answer, heard) = oneshot::channel();
        let scope = Scope::tenant(tenant.clone());
        let joined = desk.turnstile.join(&tenant, Uuid::nil(), Waiting { scope, step: Step::Complete, answer });
        let first = joined.unwrap().expect("who is alone goes at once");
        let walk = Walk::of(desk.clone(), tenant, &first);
        assert_eq!(lines(), 1);
        drop((walk, first));
        assert!(heard.await.is_err());
        assert_eq!(lines(), 0);
    }
}
