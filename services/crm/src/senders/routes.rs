//! The HTTP API of senders and their DKIM keys.

use super::{
    commands::{self, SenderChange},
    store::{self, DkimKeyRow, SenderRow},
};
use crate::{CrmError, access, state::CrmState};
use onceward::{Idempotency, prelude::*, web::axum::extract::State};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

const DKIM: &str = "/api/crm/senders/{domain}/dkim";
const DKIM_KEY: &str = "/api/crm/senders/{domain}/dkim/{selector}";

pub(crate) fn routes() -> Routes<Arc<CrmState>> {
    Routes::new()
        .get("/api/crm/senders", access::read(), list)
        .summary("List the senders with their DKIM keys and the DNS records to publish")
        .responds(200, "crm.sender.list.v1")
        .put("/api/crm/senders/{domain}", access::admin(), put)
        .summary("Declare who mail of a domain comes from. The first sender is the default")
        .idempotency(Idempotency::Optional)
        .request("crm.sender.put.v1")
        .responds(200, "crm.sender.v1")
        .post(DKIM, access::admin(), add_key)
        .summary("Add a DKIM key: an RSA or Ed25519 key as PEM, or a new Ed25519 key. It signs once it is activated")
        .request("crm.dkim.new.v1")
        .responds(201, "crm.dkim.v1")
        .post("/api/crm/senders/{domain}/dkim/{selector}/activate", access::admin(), activate)
        .summary("Sign with a key, instead of the one with the same algorithm. Publish its DNS record first")
        .responds(200, "crm.dkim.v1")
        .delete(DKIM_KEY, access::admin(), remove)
        .summary("Delete a DKIM key")
        .responds(200, "crm.dkim.removed.v1")
}

async fn list(reader: Reader) -> Result<Response, Problem> {
    let mut senders = Vec::new();
    for sender in store::list_senders(&reader.tx).await? {
        senders.push(view(&reader.tx, &sender).await?);
    }
    reader.respond(&json!({ "senders": senders })).await
}

#[derive(Deserialize)]
struct SenderBody {
    from_address: String,
    from_name: Option<String>,
    reply_to: Option<String>,
    is_default: Option<bool>,
}

async fn put(
    State(state): State<Arc<CrmState>>,
    Path(domain): Path<String>,
    command: Command<SenderBody>,
) -> Result<Response, Problem> {
    let (SenderBody { from_address, from_name, reply_to, is_default }, mut command) = command.into_parts();
    let change = SenderChange { from_address, from_name, reply_to, is_default };
    let sender = commands::put_sender(&mut command.tx, &state.keys, &domain, change).await?;
    let body = view(&command.tx, &sender).await?;
    command.respond(StatusCode::OK, &body).await
}

#[derive(Deserialize)]
struct NewKey {
    selector: String,
    private_key_pem: Option<String>,
}

async fn add_key(
    State(state): State<Arc<CrmState>>,
    Path(domain): Path<String>,
    command: Command<NewKey>,
) -> Result<Response, Problem> {
    let (NewKey { selector, private_key_pem }, mut command) = command.into_parts();
    let name = (domain.as_str(), selector.as_str());
    commands::add_key(&mut command.tx, &state.keys, name, private_key_pem.as_deref()).await?;
    let key = store::find_key(&command.tx, &domain, &selector).await?.ok_or(CrmError::NotFound("DKIM key"))?;
    command.respond(StatusCode::CREATED, &key_view(&key)).await
}

async fn activate(
    Path((domain, selector)): Path<(String, String)>,
    command: Command<Option<()>>,
) -> Result<Response, Problem> {
    let (_, mut command) = command.into_parts();
    let key = commands::activate_key(&mut command.tx, &domain, &selector).await?;
    command.respond(StatusCode::OK, &key_view(&key)).await
}

async fn remove(
    Path((domain, selector)): Path<(String, String)>,
    command: Command<Option<()>>,
) -> Result<Response, Problem> {
    let (_, mut command) = command.into_parts();
    commands::remove_key(&mut command.tx, &domain, &selector).await?;
    command.respond(StatusCode::OK, &json!({ "domain": domain, "selector": selector })).await
}

async fn view(tx: &Tx, sender: &SenderRow) -> Result<Value, DbError> {
    let keys = store::list_keys(tx, &sender.domain).await?;
    Ok(json!({
        "domain": sender.domain, "from_address": sender.from_address, "from_name": sender.from_name,
        "reply_to": sender.reply_to, "is_default": sender.is_default, "updated_at": sender.updated_at,
        "dkim_keys": keys.iter().map(key_view).collect::<Vec<_>>(),
    }))
}

fn key_view(key: &DkimKeyRow) -> Value {
    json!({
        "domain": key.domain, "selector": key.selector, "algorithm": key.algorithm, "is_active": key.is_active,
        "record_name": format!("{}._domainkey.{}", key.selector, key.domain), "record": key.record,
        "created_at": key.created_at,
    })
}
