//! Endpoints and their secrets.

use super::Desk;
use crate::{
    commands::{self, Patch},
    error::WebhookError,
    store::{self, Change, Endpoint},
};
use onceward::{DbError, prelude::*};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::sync::Arc;
use uuid::Uuid;

const OVERLAP_S: i64 = 24 * 60 * 60;
/// More than a tenant may have.
const LISTED_AT_MOST: i64 = 1_000;

#[derive(Deserialize)]
pub(super) struct New {
    url: String,
    #[serde(default)]
    description: String,
    event_types: Vec<String>,
    #[serde(default)]
    paused: bool,
    max_per_second: Option<i32>,
}

pub(super) async fn create(command: Command<New>, desk: Arc<Desk>) -> Result<Response, Problem> {
    let (New { url, description, event_types, paused, max_per_second }, mut command) = command.into_parts();
    let new = Change { url, description, event_types, paused, max_per_second };
    let (endpoint, secret) = commands::create(&mut command.tx, &desk.settings, &desk.vault, new).await?;
    let kept = view(&command.tx, &endpoint).await?;
    let mut body = kept.clone();
    body["secret"] = secret.reveal().into();
    command.respond_once(StatusCode::CREATED, &body, &kept).await
}

pub(super) async fn list(reader: Reader) -> Result<Response, Problem> {
    let mut endpoints = Vec::new();
    for endpoint in store::list_endpoints(&reader.tx, LISTED_AT_MOST).await? {
        endpoints.push(view(&reader.tx, &endpoint).await?);
    }
    reader.respond(&json!({ "endpoints": endpoints })).await
}

pub(super) async fn show(Path(id): Path<Uuid>, reader: Reader) -> Result<Response, Problem> {
    let endpoint = store::find_endpoint(&reader.tx, id).await?.ok_or(WebhookError::Missing("endpoint"))?;
    let body = view(&reader.tx, &endpoint).await?;
    reader.respond(&body).await
}

#[derive(Deserialize)]
pub(super) struct Changes {
    url: Option<String>,
    description: Option<String>,
    event_types: Option<Vec<String>>,
    paused: Option<bool>,
    #[serde(default, deserialize_with = "given")]
    max_per_second: Option<Option<i32>>,
}

/// Tells `null` from nothing.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<i32>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

pub(super) async fn change(
    Path(id): Path<Uuid>,
    command: Command<Changes>,
    desk: Arc<Desk>,
) -> Result<Response, Problem> {
    let (Changes { url, description, event_types, paused, max_per_second }, mut command) = command.into_parts();
    let patch = Patch { url, description, event_types, paused, max_per_second };
    let endpoint = commands::change(&mut command.tx, &desk.settings, id, patch).await?;
    let body = view(&command.tx, &endpoint).await?;
    command.respond(StatusCode::OK, &body).await
}

pub(super) async fn remove(Path(id): Path<Uuid>, command: Command<Option<()>>) -> Result<Response, Problem> {
    let (_, mut command) = command.into_parts();
    commands::remove(&mut command.tx, id).await?;
    command.respond(StatusCode::OK, &json!({ "endpoint_id": id })).await
}

#[derive(Deserialize)]
pub(super) struct Rotate {
    overlap_s: Option<i64>,
}

pub(super) async fn rotate(
    Path(id): Path<Uuid>,
    command: Command<Rotate>,
    desk: Arc<Desk>,
) -> Result<Response, Problem> {
    let (Rotate { overlap_s }, mut command) = command.into_parts();
    let secret = commands::rotate(&mut command.tx, &desk.vault, id, overlap_s.unwrap_or(OVERLAP_S)).await?;
    let secrets = store::show_secrets(&command.tx, id).await?;
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
    view["secrets"] = store::show_secrets(tx, endpoint.endpoint_id).await?;
    Ok(view)
}
