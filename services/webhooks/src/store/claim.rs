//! Claims due deliveries, for all tenants.

use jiff::Timestamp;
use onceward::secrets::SealedBytes;
use onceward::{Db, DbError, Row, TenantId, envelope::TraceContext};
use serde_json::{Map, Value, json};
use uuid::Uuid;

const CLAIM: &str = "
    SELECT endpoint_id, tenant_id, delivery_id, lease, attempts, url, event_id, event_type, body, traceparent, tracestate,
           key_ids, secrets, recorded_at
    FROM webhooks.claim($1)";
/// Endpoints visited per call.
pub(crate) const MAX_VISITED: usize = 500;

/// What to claim, and how much.
#[derive(Clone, Debug)]
pub(crate) struct ClaimRequest {
    /// Continues after this endpoint.
    pub after: Uuid,
    /// The most deliveries to claim.
    pub limit: i32,
    pub in_flight_per_endpoint: i32,
    /// Claims from failing endpoints if true, and from all others if false.
    pub failing: bool,
    pub lease_ms: i32,
    /// Endpoints after `after` that are passed over while they have these URLs; more than [`MAX_VISITED`] are never met.
    pub waiting: Vec<(Uuid, String)>,
}

/// A delivery that this instance may send until its lease expires.
pub(crate) struct ClaimedDelivery {
    pub tenant: TenantId,
    pub endpoint_id: Uuid,
    pub delivery_id: Uuid,
    pub lease: i32,
    /// Failed attempts since the delivery became pending.
    pub attempts: u32,
    pub url: String,
    pub event_id: Uuid,
    pub event_type: String,
    pub body: String,
    /// The trace that the event belongs to.
    pub trace: Option<TraceContext>,
    /// The valid secrets, newest first.
    pub secrets: Vec<SealedBytes>,
    pub recorded_at: Timestamp,
}

/// Claims due deliveries. Returns them, and the endpoint after which to continue if some endpoints were not examined.
pub(crate) async fn claim_deliveries(
    db: &Db,
    request: ClaimRequest,
) -> Result<(Vec<ClaimedDelivery>, Option<Uuid>), DbError> {
    let waiting: Map<String, Value> =
        request.waiting.into_iter().map(|(id, url)| (id.to_string(), url.into())).collect();
    let document = json!({
        "after": request.after, "limit": request.limit, "visits": MAX_VISITED, "in_flight": request.in_flight_per_endpoint,
        "failing": request.failing, "lease_ms": request.lease_ms, "waiting": waiting,
    });
    let connection = db.connection().await?;
    let rows = connection.query(CLAIM, &[&document]).await?;
    let mut deliveries = Vec::with_capacity(rows.len());
    let mut next_cursor = None;
    for row in &rows {
        match row.get::<_, Option<Uuid>>("delivery_id") {
            Some(delivery_id) => deliveries.extend(read_delivery(row, delivery_id)),
            None => next_cursor = row.get("endpoint_id"),
        }
    }
    Ok((deliveries, next_cursor))
}

fn read_delivery(row: &Row, delivery_id: Uuid) -> Option<ClaimedDelivery> {
    let key_ids: Vec<String> = row.get("key_ids");
    let secrets: Vec<Vec<u8>> = row.get("secrets");
    Some(ClaimedDelivery {
        tenant: TenantId::new(row.get::<_, &str>("tenant_id")).ok()?,
        endpoint_id: row.get("endpoint_id"),
        delivery_id,
        lease: row.get("lease"),
        attempts: u32::try_from(row.get::<_, i32>("attempts")).unwrap_or(0),
        url: row.get("url"),
        event_id: row.get("event_id"),
        event_type: row.get("event_type"),
        body: row.get("body"),
        trace: row
            .get::<_, Option<&str>>("traceparent")
            .and_then(TraceContext::parse)
            .map(|trace| trace.with_state(row.get("tracestate"))),
        secrets: key_ids.into_iter().zip(secrets).map(|(key_id, bytes)| SealedBytes { key_id, bytes }).collect(),
        recorded_at: row.get("recorded_at"),
    })
}
