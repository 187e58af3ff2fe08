//! The HTTP API of suppressions and of stopped classes.

use super::{
    commands::{self, NewSuppression, SuppressionRemoval},
    cursor,
};
use crate::{CrmError, access, feedback::store, state::CrmState};
use jiff::Timestamp;
use onceward::{
    prelude::*,
    web::axum::extract::{Query, State},
};
use onceward_mail::address::EmailAddress;
use serde::Deserialize;
use std::sync::Arc;

const SUPPRESSIONS: &str = "/api/crm/suppressions";
const PAGE_SIZE: usize = 50;
const PAGE_SIZE_MAX: usize = 200;
const HASH_BYTES: usize = 32;

pub(crate) fn routes() -> Routes<Arc<CrmState>> {
    Routes::new()
        .get(SUPPRESSIONS, access::read(), list)
        .summary(
            "List suppressed addresses by hash, latest first, or those of ?address=; page with ?limit= and ?cursor=",
        )
        .responds(200, "crm.suppression.list.v1")
        .post(SUPPRESSIONS, access::write(), suppress)
        .summary("Suppress an address by hand: a class of mail, or all but legal and security mail with *")
        .request("crm.suppression.new.v1")
        .responds(201, "crm.suppression.v1")
        .responds(200, "crm.suppression.v1")
        .delete("/api/crm/suppressions/{address_hash}", access::write(), remove)
        .summary("Remove suppressions of an address for a reason, for example because it was verified")
        .request("crm.suppression.remove.v1")
        .responds(200, "crm.suppression.removed.v1")
        .get("/api/crm/class-stops", access::read(), list_stops)
        .summary("List the classes of mail that are stopped because too many recipients complained")
        .responds(200, "crm.class-stop.list.v1")
        .delete("/api/crm/class-stops/{mail_class}", access::admin(), lift_stop)
        .summary("Lift the stop of a class. The complaints before do not stop it again")
        .request("crm.class-stop.lift.v1")
        .responds(200, "crm.class-stop.list.v1")
}

#[derive(Deserialize)]
struct SuppressionQuery {
    address: Option<String>,
    cursor: Option<String>,
    limit: Option<usize>,
}

async fn list(
    State(state): State<Arc<CrmState>>,
    Query(query): Query<SuppressionQuery>,
    reader: Reader,
) -> Result<Response, Problem> {
    if let Some(address) = &query.address {
        let hash = hash_of(&state, &reader.tx, address, "address").await?;
        let entries = store::suppressions_of(&reader.tx, &hash).await?;
        return reader.respond(&json!({ "suppressions": entries, "next": null })).await;
    }
    let size = query.limit.unwrap_or(PAGE_SIZE).clamp(1, PAGE_SIZE_MAX);
    let position = match &query.cursor {
        None => cursor::beginning(),
        Some(text) => cursor::read(text).ok_or_else(|| {
            Problem::new(codes::INVALID_REQUEST).detail("`cursor` must be the value of `next` of the page before.")
        })?,
    };
    let limit = i64::try_from(size).unwrap_or(i64::MAX).saturating_add(1);
    let mut entries = store::list_suppressions(&reader.tx, &position, limit).await?;
    let has_more = entries.len() > size;
    entries.truncate(size);
    let next = entries.last().filter(|_| has_more).map(cursor::after);
    reader.respond(&json!({ "suppressions": entries, "next": next })).await
}

#[derive(Deserialize)]
struct SuppressionBody {
    address: String,
    #[serde(default = "all_classes")]
    mail_class: String,
    reason: String,
    until: Option<Timestamp>,
}

fn all_classes() -> String {
    "*".to_owned()
}

async fn suppress(State(state): State<Arc<CrmState>>, command: Command<SuppressionBody>) -> Result<Response, Problem> {
    let (body, mut command) = command.into_parts();
    let address_hash = hash_of(&state, &command.tx, &body.address, "/address").await?;
    let new = NewSuppression { address_hash, mail_class: body.mail_class, note: body.reason, until: body.until };
    let (entry, is_new) = commands::suppress_by_hand(&mut command.tx, new).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    command.respond(status, &entry).await
}

#[derive(Deserialize)]
struct RemovalBody {
    reason: String,
    mail_class: Option<String>,
    suppressed_for: Option<String>,
}

async fn remove(Path(address_hash): Path<String>, command: Command<RemovalBody>) -> Result<Response, Problem> {
    let (RemovalBody { reason, mail_class, suppressed_for }, mut command) = command.into_parts();
    let hash = hex::decode(&address_hash).ok().filter(|hash| hash.len() == HASH_BYTES);
    let address_hash = hash.ok_or(CrmError::NotFound("suppression"))?;
    let removal = SuppressionRemoval { address_hash, mail_class, suppressed_for, reason };
    let removed = commands::remove_suppressions(&mut command.tx, &removal).await?;
    if removed.is_empty() {
        return Err(CrmError::NotFound("suppression").into());
    }
    command.respond(StatusCode::OK, &json!({ "removed": removed })).await
}

async fn list_stops(reader: Reader) -> Result<Response, Problem> {
    let stops = store::list_class_stops(&reader.tx).await?;
    reader.respond(&json!({ "class_stops": stops })).await
}

#[derive(Deserialize)]
struct LiftBody {
    reason: String,
}

async fn lift_stop(Path(mail_class): Path<String>, command: Command<LiftBody>) -> Result<Response, Problem> {
    let (LiftBody { reason }, mut command) = command.into_parts();
    commands::lift_stop(&mut command.tx, &mail_class, &reason).await?;
    let stops = store::list_class_stops(&command.tx).await?;
    command.respond(StatusCode::OK, &json!({ "class_stops": stops })).await
}

async fn hash_of(state: &CrmState, tx: &Tx, address: &str, path: &str) -> Result<Vec<u8>, CrmError> {
    let address = EmailAddress::parse(address).map_err(|error| CrmError::invalid(path, error))?;
    Ok(state.keys.address_hasher(tx).await?.hash(&address))
}
