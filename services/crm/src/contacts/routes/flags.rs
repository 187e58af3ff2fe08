//! Do-not-contact and consent.

use crate::{
    access,
    contacts::{self, commands, model::ConsentRecord, store},
    state::CrmState,
};
use onceward::prelude::*;
use serde::Deserialize;
use std::sync::Arc;
use uuid::Uuid;

const DO_NOT_CONTACT: &str = "/api/crm/contacts/{id}/do-not-contact";
const CONSENTS: &str = "/api/crm/contacts/{id}/consents";

pub(super) fn routes() -> Routes<Arc<CrmState>> {
    Routes::new()
        .post(DO_NOT_CONTACT, access::write(), set)
        .summary("Stop a class of mail to a contact, or all with *, for a reason")
        .request("crm.dnc.new.v1")
        .responds(201, "crm.dnc.list.v1")
        .responds(200, "crm.dnc.list.v1")
        .get(DO_NOT_CONTACT, access::read(), list)
        .summary("List the do-not-contact entries of a contact, with those that were lifted, latest first")
        .responds(200, "crm.dnc.list.v1")
        .delete("/api/crm/contacts/{id}/do-not-contact/{dnc_id}", access::write(), lift)
        .summary("Lift a do-not-contact entry. It stays in the history")
        .responds(200, "crm.dnc.list.v1")
        .post(CONSENTS, access::write(), record_consent)
        .summary("Record that a contact gave or withdrew consent to a class of mail. The latest record counts")
        .request("crm.consent.new.v1")
        .responds(201, "crm.consent.list.v1")
        .get(CONSENTS, access::read(), list_consents)
        .summary("List the records of consent, latest first")
        .responds(200, "crm.consent.list.v1")
}

#[derive(Deserialize)]
struct DoNotContactBody {
    class: String,
    reason: String,
}

async fn set(Path(contact_id): Path<Uuid>, command: Command<DoNotContactBody>) -> Result<Response, Problem> {
    let (DoNotContactBody { class, reason }, mut command) = command.into_parts();
    let (_, is_new) = commands::set_do_not_contact(&mut command.tx, contact_id, &class, &reason).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let entries = store::list_dnc(&command.tx, contact_id).await?;
    command.respond(status, &json!({ "entries": entries })).await
}

async fn list(Path(contact_id): Path<Uuid>, reader: Reader) -> Result<Response, Problem> {
    contacts::require(&reader.tx, contact_id).await?;
    let entries = store::list_dnc(&reader.tx, contact_id).await?;
    reader.respond(&json!({ "entries": entries })).await
}

async fn lift(
    Path((contact_id, dnc_id)): Path<(Uuid, Uuid)>,
    command: Command<Option<()>>,
) -> Result<Response, Problem> {
    let (_, mut command) = command.into_parts();
    commands::lift_do_not_contact(&mut command.tx, contact_id, dnc_id).await?;
    let entries = store::list_dnc(&command.tx, contact_id).await?;
    command.respond(StatusCode::OK, &json!({ "entries": entries })).await
}

async fn record_consent(Path(contact_id): Path<Uuid>, command: Command<ConsentRecord>) -> Result<Response, Problem> {
    let (record, mut command) = command.into_parts();
    commands::record_consent(&mut command.tx, contact_id, &record).await?;
    let consents = store::list_consents(&command.tx, contact_id).await?;
    command.respond(StatusCode::CREATED, &json!({ "consents": consents })).await
}

async fn list_consents(Path(contact_id): Path<Uuid>, reader: Reader) -> Result<Response, Problem> {
    contacts::require(&reader.tx, contact_id).await?;
    let consents = store::list_consents(&reader.tx, contact_id).await?;
    reader.respond(&json!({ "consents": consents })).await
}
