//! Setting and removing pauses and rate limits. Each is recorded in the audit trail with the commit that does it.

use super::{ControlEntry, QUEUE_CONTROLS};
use crate::triage::{Operator, audit};
use jiff::Timestamp;
use onceward_audit::Entry;
use onceward_db::{Db, DbError, Scope, Tx};
use onceward_envelope::TenantId;
use serde_json::{Value, json};
use std::time::Duration;

// In `migrations/0022_controls.sql`:
const PAUSE_QUEUE: &str = "SELECT onceward.pause_queue($1, $2, $3::bigint * interval '1 millisecond', $4, $5)";
const RESUME_QUEUE: &str = "SELECT onceward.resume_queue($1, $2)";
const LIMIT_QUEUE: &str = "SELECT onceward.limit_queue($1, $2, $3, $4, $5, $6)";
const UNLIMIT_QUEUE: &str = "SELECT onceward.unlimit_queue($1, $2)";

/// Returns everything that is set, by queue.
pub async fn list(db: &Db) -> Result<Vec<ControlEntry>, DbError> {
    let connection = db.connection().await?;
    Ok(connection.query(QUEUE_CONTROLS, &[]).await?.iter().map(ControlEntry::from_row).collect())
}

/// Pauses `queue`, or one tenant in it, for a time, after which it continues by itself. Replaces an earlier pause. Returns
/// when it ends. Work in progress is finished. Fails if there is no such queue.
pub async fn pause(
    db: &Db,
    queue: &str,
    tenant: Option<&TenantId>,
    pause_for: Duration,
    operator: &Operator,
) -> Result<Timestamp, DbError> {
    let mut tx = db.begin(Scope::platform("controls")).await?;
    let pause_ms = i64::try_from(pause_for.as_millis()).unwrap_or(i64::MAX);
    let parameters: &[&(dyn onceward_db::ToSql + Sync)] =
        &[&queue, &name_of(tenant), &pause_ms, &operator.name, &operator.why];
    let ends_at: Timestamp = tx.query_one(PAUSE_QUEUE, parameters).await?.get(0);
    record(&mut tx, "queue_paused", queue, tenant, operator, [("endsAt", json!(ends_at))])?;
    tx.commit().await?;
    Ok(ends_at)
}

/// Ends a pause now. Returns `false` if there was none.
pub async fn resume(db: &Db, queue: &str, tenant: Option<&TenantId>, operator: &Operator) -> Result<bool, DbError> {
    let mut tx = db.begin(Scope::platform("controls")).await?;
    let was_paused: bool = tx.query_one(RESUME_QUEUE, &[&queue, &name_of(tenant)]).await?.get(0);
    if !was_paused {
        tx.rollback().await?;
        return Ok(false);
    }
    record(&mut tx, "queue_resumed", queue, tenant, operator, [])?;
    tx.commit().await?;
    Ok(true)
}

/// Limits `queue`, or one tenant in it, to `per_second` messages over all processes. Replaces an earlier limit. `burst` is
/// how many may be handled at once after an idle time. Fails if there is no such queue.
pub async fn limit(
    db: &Db,
    queue: &str,
    tenant: Option<&TenantId>,
    per_second: f64,
    burst: i32,
    operator: &Operator,
) -> Result<(), DbError> {
    let mut tx = db.begin(Scope::platform("controls")).await?;
    let parameters: &[&(dyn onceward_db::ToSql + Sync)] =
        &[&queue, &name_of(tenant), &per_second, &burst, &operator.name, &operator.why];
    tx.query_one(LIMIT_QUEUE, parameters).await?;
    let details = [("perSecond", json!(per_second)), ("burst", json!(burst))];
    record(&mut tx, "queue_limited", queue, tenant, operator, details)?;
    tx.commit().await.map(drop)
}

/// Removes a rate limit. Returns `false` if there was none.
pub async fn unlimit(db: &Db, queue: &str, tenant: Option<&TenantId>, operator: &Operator) -> Result<bool, DbError> {
    let mut tx = db.begin(Scope::platform("controls")).await?;
    let was_limited: bool = tx.query_one(UNLIMIT_QUEUE, &[&queue, &name_of(tenant)]).await?.get(0);
    if !was_limited {
        tx.rollback().await?;
        return Ok(false);
    }
    record(&mut tx, "queue_unlimited", queue, tenant, operator, [])?;
    tx.commit().await?;
    Ok(true)
}

/// The tenant as the database stores it; empty means every tenant.
fn name_of(tenant: Option<&TenantId>) -> &str {
    tenant.map_or("", TenantId::as_str)
}

fn record<const N: usize>(
    tx: &mut Tx,
    event_type: &str,
    queue: &str,
    tenant: Option<&TenantId>,
    operator: &Operator,
    details: [(&'static str, Value); N],
) -> Result<(), DbError> {
    audit::record(tx, operator, tenant, Entry::new(event_type).object("queue", queue), details)
}
