//! Destinations that no process calls, because their breakers are open or isolated.

use super::{CheckContext, DoctorFinding};
use onceward::outbound::{self, BreakerRow};
use onceward_resilience::SharedPhase;
use std::collections::BTreeMap;

pub(super) async fn open(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let rows = outbound::list(&context.db).await?;
    let isolated = rows.iter().filter_map(isolation);
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows.iter().filter(|row| is_open(row)) {
        *open.entry(&row.destination).or_default() += 1;
    }
    Ok(open.into_iter().map(|(destination, breakers)| outage(destination, breakers)).chain(isolated).collect())
}

fn is_open(row: &BreakerRow) -> bool {
    matches!(row.breaker.phase, SharedPhase::Open { .. } | SharedPhase::Probing { .. })
}

/// One finding per destination: some have a breaker for each of very many credentials.
fn outage(destination: &str, breakers: usize) -> DoctorFinding {
    let which = if breakers == 1 { String::new() } else { format!(" with {breakers} credentials") };
    DoctorFinding::warning(
        format!("calls to {destination}{which} are rejected, because it does not answer; what needs them waits"),
        "check the destination and the network (`onceward breaker list`); it is called again by itself as soon as a probe succeeds",
    )
}

fn isolation(row: &BreakerRow) -> Option<DoctorFinding> {
    let destination = &row.destination;
    let SharedPhase::Isolated { by, why, .. } = &row.breaker.phase else { return None };
    Some(DoctorFinding::warning(
        format!("{by} has isolated {destination}: {why}; messages that need it wait"),
        format!("allow calls again with `onceward breaker close {destination}` once the cause is gone"),
    ))
}
