//! Handlers for endpoints and their secrets.

use super::WebhookContext;
use crate::{
    commands::{self, EndpointPatch},
    error::WebhookError,
    store::{self, Endpoint, EndpointSettings},
};
use onceward::{
    DbError,
    prelude::*,
    web::{AppState, axum::extract::State},
};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::sync::Arc;
use uuid::Uuid;

const DEFAULT_OVERLAP_S: i64 = 24 * 60 * 60;
/// More endpoints than a tenant may have.
const MAX_LISTED: i64 = 1_000;

#[derive(Deserialize)]
pub(super) struct NewEndpoint {
    url: String,
    #[serde(default)]
    description: String,
    event_types: Vec<String>,
    #[serde(default)]
    paused: bool,
    max_per_second: Option<i32>,
}

pub(super) async fn create(
    State(context): State<Arc<WebhookContext>>,
    state: AppState,
    command: Command<NewEndpoint>,
) -> Result<Response, Problem> {
    let (NewEndpoint { url, description, event_types, paused, max_per_second }, mut command) = command.into_parts();
    context.event_types.check(&event_types, &state.schemas)?;
    let new = EndpointSettings { url, description, event_types, paused, max_per_second };
    let (endpoint, secret) = commands::create(&mut command.tx, &context.settings, &context.vault, new).await?;
    let stored_body = view(&command.tx, &endpoint).await?;
    let mut body = stored_body.clone();
    body["secret"] = secret.reveal().into();
    command.respond_once(StatusCode::CREATED, &body, &stored_body).await
}

pub(super) async fn list(reader: Reader) -> Result<Response, Problem> {
    let mut endpoints = Vec::new();
    for endpoint in store::list_endpoints(&reader.tx, MAX_LISTED).await? {
        endpoints.push(view(&reader.tx, &endpoint).await?);
    }
    reader.respond(&json!({ "endpoints": endpoints })).await
}

pub(super) async fn event_types(
    State(context): State<Arc<WebhookContext>>,
    reader: Reader,
) -> Result<Response, Problem> {
    reader.respond(&json!({ "event_types": context.event_types.names().collect::<Vec<_>>() })).await
}

pub(super) async fn show(Path(id): Path<Uuid>, reader: Reader) -> Result<Response, Problem> {
    let endpoint = store::find_endpoint(&reader.tx, id).await?.ok_or(WebhookError::NotFound("endpoint"))?;
    let body = view(&reader.tx, &endpoint).await?;
    reader.respond(&body).await
}

#[derive(Deserialize)]
pub(super) struct EndpointChanges {
    url: Option<String>,
    description: Option<String>,
    event_types: Option<Vec<String>>,
    paused: Option<bool>,
    #[serde(default, deserialize_with = "null_or_value")]
    max_per_second: Option<Option<i32>>,
}

/// Distinguishes `null` from an absent field.
fn null_or_value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<i32>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

pub(super) async fn change(
    State(context): State<Arc<WebhookContext>>,
    state: AppState,
    Path(id): Path<Uuid>,
    command: Command<EndpointChanges>,
) -> Result<Response, Problem> {
    let (EndpointChanges { url, description, event_types, paused, max_per_second }, mut command) = command.into_parts();
    context.event_types.check(event_types.as_deref().unwrap_or_default(), &state.schemas)?;
    let patch = EndpointPatch { url, description, event_types, paused, max_per_second };
    let endpoint = commands::change(&mut command.tx, &context.settings, id, patch).await?;
    let body = view(&command.tx, &endpoint).await?;
    command.respond(StatusCode::OK, &body).await
}

pub(super) async fn remove(Path(id): Path<Uuid>, command: Command<Option<()>>) -> Result<Response, Problem> {
    let (_, mut command) = command.into_parts();
    commands::remove(&mut command.tx, id).await?;
    command.respond(StatusCode::OK, &json!({ "endpoint_id": id })).await
}

#[derive(Deserialize)]
pub(super) struct RotateSecret {
    overlap_s: Option<i64>,
}

pub(super) async fn rotate_secret(
    State(context): State<Arc<WebhookContext>>,
    Path(id): Path<Uuid>,
    command: Command<RotateSecret>,
) -> Result<Response, Problem> {
    let (RotateSecret { overlap_s }, mut command) = command.into_parts();
    let secret =
        commands::rotate_secret(&mut command.tx, &context.vault, id, overlap_s.unwrap_or(DEFAULT_OVERLAP_S)).await?;
    let secrets = store::list_secrets(&command.tx, id).await?;
    let body = json!({ "endpoint_id": id, "secret": secret.reveal(), "secrets": secrets });
    command.respond_once(StatusCode::OK, &body, &json!({ "endpoint_id": id, "secrets": secrets })).await
}

pub(super) async fn enable(Path(id): Path<Uuid>, command: Command<Option<()>>) -> Result<Response, Problem> {
    let (_, mut command) = command.into_parts();
    let endpoint = commands::enable(&mut command.tx, id).await?;
    let body = view(&command.tx, &endpoint).await?;
    command.respond(StatusCode::OK, &body).await
}

async fn view(tx: &Tx, endpoint: &Endpoint) -> Result<Value, DbError> {
    let mut view = json!(endpoint);
    view["secrets"] = store::list_secrets(tx, endpoint.endpoint_id).await?;
    Ok(view)
}
