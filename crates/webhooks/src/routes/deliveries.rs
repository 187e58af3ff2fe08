//! The delivery log, and sending by hand.

use crate::{
    commands::{self, Range},
    error::WebhookError,
    store::{self, Filter, Page},
};
use jiff::Timestamp;
use onceward::{prelude::*, web::axum::extract::Query};
use serde::Deserialize;
use uuid::Uuid;

const PAGE: u16 = 50;
const PAGE_MAX: u16 = 200;

#[derive(Deserialize)]
pub(super) struct ListQuery {
    state: Option<State>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    cursor: Option<Uuid>,
    limit: Option<u16>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Pending,
    Delivered,
    Failed,
}

impl State {
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
    Query(query): Query<ListQuery>,
    reader: Reader,
) -> Result<Response, Problem> {
    store::find_endpoint(&reader.tx, endpoint_id).await?.ok_or(WebhookError::Missing("endpoint"))?;
    let filter = Filter { endpoint_id, state: query.state.map(State::as_str), from: query.from, to: query.to };
    let limit = usize::from(query.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX));
    let Page { deliveries, next } = store::list_deliveries(&reader.tx, &filter, query.cursor, limit).await?;
    reader.respond(&json!({ "deliveries": deliveries, "next": next })).await
}

pub(super) async fn show(Path(id): Path<Uuid>, reader: Reader) -> Result<Response, Problem> {
    let (delivery, _) = store::find_delivery(&reader.tx, id).await?.ok_or(WebhookError::Missing("delivery"))?;
    reader.respond(&delivery).await
}

pub(super) async fn test(Path(endpoint_id): Path<Uuid>, command: Command<Option<()>>) -> Result<Response, Problem> {
    let (_, mut command) = command.into_parts();
    let delivery_id = commands::test_send(&mut command.tx, endpoint_id).await?;
    sending(command, delivery_id).await
}

pub(super) async fn resend(Path(delivery_id): Path<Uuid>, command: Command<Option<()>>) -> Result<Response, Problem> {
    let (_, mut command) = command.into_parts();
    commands::resend(&mut command.tx, delivery_id).await?;
    sending(command, delivery_id).await
}

async fn sending(command: Command, delivery_id: Uuid) -> Result<Response, Problem> {
    command.accepted(format!("/api/webhooks/deliveries/{delivery_id}"), &json!({ "delivery_id": delivery_id })).await
}

#[derive(Deserialize)]
pub(super) struct Replay {
    from: Timestamp,
    to: Timestamp,
    event_types: Option<Vec<String>>,
}

pub(super) async fn replay(Path(endpoint_id): Path<Uuid>, command: Command<Replay>) -> Result<Response, Problem> {
    let (Replay { from, to, event_types }, mut command) = command.into_parts();
    let replayed = commands::replay(&mut command.tx, endpoint_id, Range { from, to, event_types }).await?;
    let body = json!({ "count": replayed.deliveries, "next_from": replayed.next_from });
    command.accepted(format!("/api/webhooks/endpoints/{endpoint_id}/deliveries"), &body).await
}
