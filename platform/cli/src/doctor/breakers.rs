//! Destinations that no process calls, because their breakers are open or isolated.

use super::{CheckContext, DoctorFinding};
use onceward::outbound::{self, BreakerRow};
use onceward_resilience::SharedPhase;

pub(super) async fn open(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    Ok(outbound::list(&context.db).await?.iter().filter_map(finding).collect())
}

fn finding(row: &BreakerRow) -> Option<DoctorFinding> {
    let destination = &row.destination;
    match &row.breaker.phase {
        SharedPhase::Watched => None,
        SharedPhase::Open { .. } | SharedPhase::Probing { .. } => Some(DoctorFinding::warning(
            format!("calls to {destination} are rejected, because it does not answer; messages that need it wait"),
            "check the destination and the network; it is called again by itself as soon as a probe succeeds",
        )),
        SharedPhase::Isolated { by, why, .. } => Some(DoctorFinding::warning(
            format!("{by} has isolated {destination}: {why}; messages that need it wait"),
            format!("allow calls again with `onceward breaker close {destination}` once the cause is gone"),
        )),
    }
}
