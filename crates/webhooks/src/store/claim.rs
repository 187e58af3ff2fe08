//! Claiming what is due, for all tenants.

use crate::vault::Sealed;
use jiff::Timestamp;
use onceward::{Db, DbError, Row, TenantId};
use uuid::Uuid;

const CLAIM: &str = "
    SELECT endpoint_id, tenant_id, delivery_id, lease, attempts, url, event_id, event_type, body, key_ids, secrets, recorded_at
    FROM webhooks.claim($1, $2, $3, $4, $5, $6)";
/// Endpoints that one call looks at.
const VISITS: i32 = 500;

/// How much to claim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// Goes on behind this endpoint.
    pub after: Uuid,
    pub most: i32,
    pub in_flight_per_endpoint: i32,
    /// From endpoints that fail, and otherwise from all others.
    pub failing: bool,
    pub lease_ms: i32,
}

/// A delivery that is ours to make until its lease runs out.
pub(crate) struct Claimed {
    pub tenant: TenantId,
    pub endpoint_id: Uuid,
    pub delivery_id: Uuid,
    pub lease: i32,
    /// How often it failed since it was made pending.
    pub attempts: u32,
    pub url: String,
    pub event_id: Uuid,
    pub event_type: String,
    pub body: String,
    /// Those in force, the newest first.
    pub secrets: Vec<Sealed>,
    pub recorded_at: Timestamp,
}

/// What was claimed, and where to go on if not everybody was looked at.
pub(crate) async fn claim(db: &Db, claim: Claim) -> Result<(Vec<Claimed>, Option<Uuid>), DbError> {
    let Claim { after, most, in_flight_per_endpoint, failing, lease_ms } = claim;
    let connection = db.connection().await?;
    let rows = connection.query(CLAIM, &[&after, &most, &VISITS, &in_flight_per_endpoint, &failing, &lease_ms]).await?;
    let mut claimed = Vec::with_capacity(rows.len());
    let mut go_on = None;
    for row in &rows {
        match row.get::<_, Option<Uuid>>("delivery_id") {
            Some(delivery_id) => claimed.extend(read(row, delivery_id)),
            None => go_on = row.get("endpoint_id"),
        }
    }
    Ok((claimed, go_on))
}

fn read(row: &Row, delivery_id: Uuid) -> Option<Claimed> {
    let key_ids: Vec<String> = row.get("key_ids");
    let secrets: Vec<Vec<u8>> = row.get("secrets");
    Some(Claimed {
        tenant: TenantId::new(row.get::<_, &str>("tenant_id")).ok()?,
        endpoint_id: row.get("endpoint_id"),
        delivery_id,
        lease: row.get("lease"),
        attempts: u32::try_from(row.get::<_, i32>("attempts")).unwrap_or(0),
        url: row.get("url"),
        event_id: row.get("event_id"),
        event_type: row.get("event_type"),
        body: row.get("body"),
        secrets: key_ids.into_iter().zip(secrets).map(|(key_id, bytes)| Sealed { key_id, bytes }).collect(),
        recorded_at: row.get("recorded_at"),
    })
}
