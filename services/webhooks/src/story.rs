//! Adds an event's deliveries to the story that `onceward trace` shows.

use crate::store::{self, DeliverySummary};
use onceward::{Db, DbError, Scope, TenantId, story::Contribution};
use serde_json::{Value, json};
use uuid::Uuid;

/// Returns one contribution per delivery of these events.
pub(crate) async fn contributions(db: Db, tenant: TenantId, events: Vec<Uuid>) -> Result<Vec<Contribution>, DbError> {
    let tx = db.begin(Scope::for_tenant(tenant)).await?;
    let deliveries = store::deliveries_of_events(&tx, &events).await?;
    tx.rollback().await?;
    Ok(deliveries.into_iter().map(contribution).collect())
}

fn contribution(delivery: DeliverySummary) -> Contribution {
    let mut lines = vec![headline(&delivery)];
    lines.extend(delivery.log.as_array().into_iter().flatten().map(describe_attempt));
    let DeliverySummary { event_id, delivery_id, endpoint_id, origin, state, tried, due_at, log } = delivery;
    let data = json!({
        "delivery_id": delivery_id, "endpoint_id": endpoint_id, "origin": origin, "state": state, "attempts": tried,
        "due_at": due_at, "log": log,
    });
    Contribution { service: "", event_id, lines, data }
}

/// Describes a delivery without the path of the URL, which may contain a secret.
fn headline(delivery: &DeliverySummary) -> String {
    let DeliverySummary { origin, endpoint_id, state, tried, due_at, .. } = delivery;
    let attempts = if *tried == 1 { "1 attempt".to_owned() } else { format!("{tried} attempts") };
    let next = due_at.map(|at| format!(", next at {at}")).unwrap_or_default();
    format!("webhook to {origin} (endpoint {endpoint_id}): {state} after {attempts}{next}")
}

fn describe_attempt(attempt: &Value) -> String {
    let text = |name: &str| attempt[name].as_str().unwrap_or_default();
    let outcome = match (attempt["status"].as_i64(), attempt["error"].as_str()) {
        (_, Some(error)) => error.to_owned(),
        (Some(status), None) => format!("responded {status}"),
        (None, None) => "no response".to_owned(),
    };
    format!("  attempt {} at {}, {} ms: {outcome}", attempt["number"], text("started_at"), attempt["duration_ms"])
}
