//! Service-level objectives as data: what is promised, how it is measured, and the alerts that fire when it does not hold.
//!
//! The platform's own are in [`platform`]; a service adds its own with [`crate::Service::slo`]. The command line writes
//! them all as a Prometheus rules file.

pub mod platform;

use crate::Platform;
use serde::Serialize;
use std::collections::BTreeSet;

/// The urgency of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Someone is paged at once.
    Page,
    /// Someone handles it in working hours.
    Ticket,
}

/// A metric that Prometheus computes in advance.
#[derive(Clone, Debug, Serialize)]
pub struct Recording {
    /// Its name, with colons by convention: `onceward:relay_lag_seconds:max`.
    pub record: &'static str,
    /// PromQL.
    pub expr: String,
}

/// An alert: its condition, its urgency, and what to do.
#[derive(Clone, Debug, Serialize)]
pub struct Alert {
    /// Its name.
    pub alert: &'static str,
    /// PromQL that returns a result while the objective does not hold.
    pub expr: String,
    /// How long it must do so, in seconds.
    pub for_s: u32,
    /// Its urgency.
    pub severity: Severity,
    /// The problem, in a sentence.
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
    /// The metrics that Prometheus computes for it.
    pub recordings: Vec<Recording>,
    /// The alerts that fire when it does not hold.
    pub alerts: Vec<Alert>,
}

impl Slo {
    /// Creates an objective without recordings and alerts.
    pub fn new(name: &'static str, objective: &'static str) -> Self {
        Self { name, objective, recordings: Vec::new(), alerts: Vec::new() }
    }

    /// Adds a metric that Prometheus computes in advance.
    pub fn record(mut self, record: &'static str, expr: impl Into<String>) -> Self {
        self.recordings.push(Recording { record, expr: expr.into() });
        self
    }

    /// Adds an alert.
    pub fn alert(mut self, alert: Alert) -> Self {
        self.alerts.push(alert);
        self
    }
}

/// Returns the objectives of the platform and of every service, each with its owner.
pub fn all(platform: &Platform) -> Vec<(&'static str, Slo)> {
    let own = platform::slos().into_iter().map(|slo| ("onceward", slo));
    own.chain(platform.slos().map(|(service, slo)| (service, slo.clone()))).collect()
}

/// Returns a problem for each name that is used twice.
pub(crate) fn duplicate_names<'s>(slos: impl Iterator<Item = &'s Slo>) -> Vec<String> {
    let mut known = BTreeSet::new();
    let names = platform::slos().into_iter().chain(slos.cloned()).flat_map(|slo| {
        let recordings = slo.recordings.into_iter().map(|recording| ("recording", recording.record));
        let alerts = slo.alerts.into_iter().map(|alert| ("alert", alert.alert));
        recordings.chain(alerts).chain([("objective", slo.name)])
    });
    let duplicates = names.filter(|name| !known.insert(*name));
    duplicates.map(|(kind, name)| format!("two service-level {kind}s are called {name}; rename one")).collect()
}
