//! Handlers for the delivery log, and for sending on request.

use crate::{
    commands::{self, ReplayRange},
    error::WebhookError,
    store::{self, DeliveryFilter, DeliveryPage},
};
use jiff::Timestamp;
use onceward::{prelude::*, web::axum::extract::Query};
use serde::Deserialize;
use uuid::Uuid;

const DEFAULT_PAGE_SIZE: u16 = 50;
const MAX_PAGE_SIZE: u16 = 200;

#[derive(Deserialize)]
pub(super) struct DeliveryListQuery {
    state: Option<DeliveryState>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    cursor: Option<Uuid>,
    limit: Option<u16>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DeliveryState {
    Pending,
    Delivered,
    Failed,
}

impl DeliveryState {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }
}

pub(super) async fn list(
    Path(endpoint_id): Path<Uuid>,
    Query(query): Query<DeliveryListQuery>,
    reader: Reader,
) -> Result<Response, Problem> {
    store::find_endpoint(&reader.tx, endpoint_id).await?.ok_or(WebhookError::NotFound("endpoint"))?;
    let filter =
        DeliveryFilter { endpoint_id, state: query.state.map(DeliveryState::as_str), from: query.from, to: query.to };
    let limit = usize::from(query.limit.unwrap_or(DEFAULT_PAGE_SIZE).clamp(1, MAX_PAGE_SIZE));
    let DeliveryPage { deliveries, next } = store::list_deliveries(&reader.tx, &filter, query.cursor, limit).await?;
    reader.respond(&json!({ "deliveries": deliveries, "next": next })).await
}

pub(super) async fn show(Path(id): Path<Uuid>, reader: Reader) -> Result<Response, Problem> {
    let (delivery, _) = store::find_delivery(&reader.tx, id).await?.ok_or(WebhookError::NotFound("delivery"))?;
    reader.respond(&delivery).await
}

pub(super) async fn test(Path(endpoint_id): Path<Uuid>, command: Command<Option<()>>) -> Result<Response, Problem> {
    let (_, mut command) = command.into_parts();
    let delivery_id = commands::send_test(&mut command.tx, endpoint_id).await?;
    accepted(command, delivery_id).await
}

pub(super) async fn resend(Path(delivery_id): Path<Uuid>, command: Command<Option<()>>) -> Result<Response, Problem> {
    let (_, mut command) = command.into_parts();
    commands::resend(&mut command.tx, delivery_id).await?;
    accepted(command, delivery_id).await
}

async fn accepted(command: Command, delivery_id: Uuid) -> Result<Response, Problem> {
    command.accepted(format!("/api/webhooks/deliveries/{delivery_id}"), &json!({ "delivery_id": delivery_id })).await
}

#[derive(Deserialize)]
pub(super) struct ReplayRequest {
    from: Timestamp,
    to: Timestamp,
    event_types: Option<Vec<String>>,
}

pub(super) async fn replay(
    Path(endpoint_id): Path<Uuid>,
    command: Command<ReplayRequest>,
) -> Result<Response, Problem> {
    let (ReplayRequest { from, to, event_types }, mut command) = command.into_parts();
    let outcome = commands::replay(&mut command.tx, endpoint_id, ReplayRange { from, to, event_types }).await?;
    let body = json!({ "count": outcome.deliveries, "next_from": outcome.next_from });
    command.accepted(format!("/api/webhooks/endpoints/{endpoint_id}/deliveries"), &body).await
}
