//! Service-level objectives as data: what is promised, how it is measured, and who is woken when it does not hold.
//!
//! The platform's own are in [`platform`]; a service adds its own with [`crate::Service::slo`]. [`rules`] writes them all as a
//! Prometheus rules file, [`figures`] tells which metrics an expression reads.

pub mod figures;
pub mod platform;
pub mod rules;

use crate::Platform;
use serde::Serialize;
use std::collections::BTreeSet;

/// Whom an alert concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Somebody is woken.
    Page,
    /// Somebody looks at it in working hours.
    Ticket,
}

/// A figure that Prometheus works out in advance.
#[derive(Clone, Debug, Serialize)]
pub struct Recording {
    /// Its name, with colons as is the custom: `onceward:relay_lag_seconds:max`.
    pub record: &'static str,
    /// PromQL.
    pub expr: String,
}

/// When to call whom, and what to do then.
#[derive(Clone, Debug, Serialize)]
pub struct Alert {
    /// Its name.
    pub alert: &'static str,
    /// PromQL that gives something while the objective does not hold.
    pub expr: String,
    /// How long that must last, in seconds.
    pub for_s: u32,
    /// Whom it concerns.
    pub severity: Severity,
    /// What is the matter, in a sentence.
    pub summary: &'static str,
    /// What to do, with the commands to type.
    pub runbook: &'static str,
}

/// One objective.
#[derive(Clone, Debug, Serialize)]
pub struct Slo {
    /// Its name.
    pub name: &'static str,
    /// What is promised, in a sentence.
    pub objective: &'static str,
    /// What is worked out for it.
    pub recordings: Vec<Recording>,
    /// What is raised when it does not hold.
    pub alerts: Vec<Alert>,
}

impl Slo {
    /// An objective that nobody measures yet.
    pub fn new(name: &'static str, objective: &'static str) -> Self {
        Self { name, objective, recordings: Vec::new(), alerts: Vec::new() }
    }

    /// A figure worked out in advance.
    pub fn record(mut self, record: &'static str, expr: impl Into<String>) -> Self {
        self.recordings.push(Recording { record, expr: expr.into() });
        self
    }

    /// What is raised.
    pub fn alert(mut self, alert: Alert) -> Self {
        self.alerts.push(alert);
        self
    }

    /// The metrics that it reads, as a process exports them.
    pub fn figures(&self) -> BTreeSet<String> {
        let recordings = self.recordings.iter().map(|recording| &recording.expr);
        let expressions = recordings.chain(self.alerts.iter().map(|alert| &alert.expr));
        expressions.flat_map(|expr| figures::figures(expr)).collect()
    }
}

/// The objectives of the platform and of every service, with who owns each.
pub fn all(platform: &Platform) -> Vec<(&'static str, Slo)> {
    let own = platform::slos().into_iter().map(|slo| ("onceward", slo));
    own.chain(platform.slos().map(|(service, slo)| (service, slo.clone()))).collect()
}

/// Names that are given twice.
pub(crate) fn clashes<'s>(slos: impl Iterator<Item = &'s Slo>) -> Vec<String> {
    let mut known = BTreeSet::new();
    let names = platform::slos().into_iter().chain(slos.cloned()).flat_map(|slo| {
        let recordings = slo.recordings.into_iter().map(|recording| ("recording", recording.record));
        let alerts = slo.alerts.into_iter().map(|alert| ("alert", alert.alert));
        recordings.chain(alerts).chain([("objective", slo.name)])
    });
    let twice = names.filter(|name| !known.insert(*name));
    twice.map(|(kind, name)| format!("two service-level {kind}s are called {name}")).collect()
}
