//! Service-level objectives as a Prometheus rules file, and the metrics that they read.

mod metric_names;
mod rules;

pub use metric_names::metric_names;
pub use rules::render_rules;

use onceward::slo::Slo;
use std::collections::BTreeSet;

/// Returns the metrics that an objective reads, as a process exports them.
pub fn metrics_of(slo: &Slo) -> BTreeSet<String> {
    let recordings = slo.recordings.iter().map(|recording| &recording.expr);
    let expressions = recordings.chain(slo.alerts.iter().map(|alert| &alert.expr));
    expressions.flat_map(|expr| metric_names(expr)).collect()
}
