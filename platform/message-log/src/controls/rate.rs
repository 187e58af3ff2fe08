//! Taking the permits of rate limits before a turn.

use super::QueueControl;
use crate::lane_scheduler::Lane;
use onceward_db::{Db, DbError};
use onceward_envelope::TenantId;
use std::time::Duration;

// In `migrations/0022_controls.sql`:
const TAKE_PERMITS: &str = "SELECT granted, wait_ms, is_tenants FROM onceward.take_permits($1, $2, $3)";
const RETURN_PERMITS: &str = "SELECT onceward.return_permits($1, $2, $3)";

/// What the rate limits of a queue allow for a set of lanes.
pub(crate) enum Permission {
    /// Up to this many messages may be taken.
    Granted(Permits),
    /// None may be taken for this time: in the whole queue, or of this tenant.
    Wait(Duration, Option<TenantId>),
}

/// Permits that were taken and may be returned.
pub(crate) struct Permits {
    pub count: usize,
    queue_id: i32,
    tenant: String,
}

/// Splits lanes by the rate limits of their tenants: those that share the limits of the first lane, and the rest, which
/// need a turn of their own.
pub(crate) fn lanes_with_same_limit(control: &QueueControl, lanes: Vec<Lane>) -> (Vec<Lane>, Vec<Lane>) {
    let limited = |lane: &Lane| control.limited_tenants.contains(&lane.tenant).then(|| lane.tenant.clone());
    let first = lanes.first().and_then(limited);
    lanes.into_iter().partition(|lane| limited(lane) == first)
}

/// Takes up to `wanted` permits for lanes that share their limits.
pub(crate) async fn take(
    db: &Db,
    queue_id: i32,
    control: &QueueControl,
    lanes: &[Lane],
    wanted: usize,
) -> Result<Permission, DbError> {
    let tenant = lanes.first().map(|lane| &lane.tenant).filter(|tenant| control.limited_tenants.contains(tenant));
    let name = tenant.map_or("", TenantId::as_str).to_owned();
    let connection = db.connection().await?;
    let wanted = i32::try_from(wanted).unwrap_or(i32::MAX);
    let rows = connection.query(TAKE_PERMITS, &[&queue_id, &name, &wanted]).await?;
    let (granted, wait_ms): (i32, Option<i64>) = (rows[0].get(0), rows[0].get(1));
    if let Some(wait_ms) = wait_ms {
        let is_tenants: bool = rows[0].get(2);
        let wait = Duration::from_millis(wait_ms.max(1).unsigned_abs());
        return Ok(Permission::Wait(wait, tenant.filter(|_| is_tenants).cloned()));
    }
    Ok(Permission::Granted(Permits { count: granted.max(0).unsigned_abs() as usize, queue_id, tenant: name }))
}

impl Permits {
    /// Returns the permits beyond `used`. A failure costs a few permits, not the turn.
    pub(crate) async fn return_unused(self, db: &Db, used: usize) {
        let unused = i32::try_from(self.count.saturating_sub(used)).unwrap_or(i32::MAX);
        if unused == 0 {
            return;
        }
        let returned = async {
            let connection = db.connection().await?;
            connection.query(RETURN_PERMITS, &[&self.queue_id, &self.tenant, &unused]).await
        };
        if let Err(error) = returned.await {
            tracing::debug!(%error, "returning unused permits of a rate limit failed");
        }
    }
}
