//! Contacts, their owner, tags, labels and links.

use super::{cut, fetched, page_size};
use crate::{
    CrmError, access,
    contacts::{
        commands::{self, ContactDraft},
        model::{ContactPatch, MAX_ADDRESSES, MAX_LINKS},
        store::{self, ContactFilter},
    },
    state::CrmState,
};
use onceward::{
    prelude::*,
    web::axum::extract::{Query, State},
};
use onceward_mail::address::EmailAddress;
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};
use uuid::Uuid;

const CONTACTS: &str = "/api/crm/contacts";
const CONTACT: &str = "/api/crm/contacts/{id}";

pub(super) fn routes() -> Routes<Arc<CrmState>> {
    Routes::new()
        .post(CONTACTS, access::write(), create)
        .summary("Create a person or a company, with its first addresses")
        .request("crm.contact.new.v1")
        .responds(201, "crm.contact.v1")
        .get(CONTACTS, access::read(), list)
        .summary(
            "List contacts, latest first. Filter with ?name= (its beginning; in the order of names), ?tag=, ?owner=, \
             ?object_type= with ?object_id=, and ?address=; page with ?limit= and ?cursor=",
        )
        .responds(200, "crm.contact.list.v1")
        .get(CONTACT, access::read(), show)
        .summary("Show a contact with its addresses and links")
        .responds(200, "crm.contact.v1")
        .patch(CONTACT, access::write(), update)
        .summary(
            "Change fields of a contact. Omitted fields stay, null empties; `version` refuses to overwrite a newer one",
        )
        .request("crm.contact.change.v1")
        .responds(200, "crm.contact.v1")
        .put("/api/crm/contacts/{id}/owner", access::write(), set_owner)
        .summary("Set or remove the owner of a contact")
        .request("crm.contact.owner.v1")
        .responds(200, "crm.contact.v1")
        .put("/api/crm/contacts/{id}/tags", access::write(), set_tags)
        .summary("Replace the tags of a contact")
        .request("crm.contact.tags.v1")
        .responds(200, "crm.contact.v1")
        .put("/api/crm/contacts/{id}/labels", access::write(), set_labels)
        .summary("Replace the labels of a contact")
        .request("crm.contact.labels.v1")
        .responds(200, "crm.contact.v1")
        .post("/api/crm/contacts/{id}/links", access::write(), add_link)
        .summary("Link a contact to a loan or to any object of another service")
        .request("crm.contact.link.v1")
        .responds(201, "crm.contact.v1")
        .responds(200, "crm.contact.v1")
        .delete("/api/crm/contacts/{id}/links/{object_type}/{object_id}", access::write(), remove_link)
        .summary("Remove a link")
        .responds(200, "crm.contact.v1")
        .post("/api/crm/contacts/{id}/erase", access::admin(), erase)
        .summary(
            "Erase a person: names, addresses, notes, and the key of all mails to the contact. It cannot be undone",
        )
        .responds(200, "crm.contact.v1")
}

async fn create(State(state): State<Arc<CrmState>>, command: Command<ContactDraft>) -> Result<Response, Problem> {
    let (draft, mut command) = command.into_parts();
    let contact_id = commands::create(&mut command.tx, &state.keys, draft).await?;
    respond(command, StatusCode::CREATED, contact_id).await
}

#[derive(Deserialize)]
struct ContactListQuery {
    name: Option<String>,
    tag: Option<String>,
    owner: Option<String>,
    object_type: Option<String>,
    object_id: Option<String>,
    address: Option<String>,
    cursor: Option<Uuid>,
    limit: Option<u16>,
}

async fn list(
    State(state): State<Arc<CrmState>>,
    Query(query): Query<ContactListQuery>,
    reader: Reader,
) -> Result<Response, Problem> {
    let (size, cursor) = (page_size(query.limit), query.cursor);
    let filter = filter(&state, &reader.tx, query).await?;
    let mut contacts = store::list_contacts(&reader.tx, &filter, cursor, fetched(size)).await?;
    let has_more = cut(&mut contacts, size);
    let next = contacts.last().filter(|_| has_more).map(|last| last.contact_id);
    reader.respond(&json!({ "contacts": contacts, "next": next })).await
}

async fn filter(state: &CrmState, tx: &Tx, query: ContactListQuery) -> Result<ContactFilter, CrmError> {
    let object = match (query.object_type, query.object_id) {
        (Some(object_type), Some(object_id)) => Some((object_type, object_id)),
        (None, None) => None,
        _ => return Err(CrmError::invalid("", "Name both `object_type` and `object_id`.")),
    };
    let address_hash = match query.address {
        Some(address) => {
            let address = EmailAddress::parse(&address).map_err(|error| CrmError::invalid("", error))?;
            Some(state.keys.address_hasher(tx).await?.hash(&address))
        }
        None => None,
    };
    Ok(ContactFilter { name: query.name, tag: query.tag, owner: query.owner, object, address_hash })
}

async fn show(Path(id): Path<Uuid>, reader: Reader) -> Result<Response, Problem> {
    let body = view(&reader.tx, id).await?;
    reader.respond(&body).await
}

async fn update(
    State(state): State<Arc<CrmState>>,
    Path(id): Path<Uuid>,
    command: Command<ContactPatch>,
) -> Result<Response, Problem> {
    let (patch, mut command) = command.into_parts();
    commands::update(&mut command.tx, &state.keys, id, patch).await?;
    respond(command, StatusCode::OK, id).await
}

#[derive(Deserialize)]
struct OwnerBody {
    owner_id: Option<String>,
    version: Option<i32>,
}

async fn set_owner(Path(id): Path<Uuid>, command: Command<OwnerBody>) -> Result<Response, Problem> {
    let (OwnerBody { owner_id, version }, mut command) = command.into_parts();
    commands::set_owner(&mut command.tx, id, owner_id.as_deref(), version).await?;
    respond(command, StatusCode::OK, id).await
}

#[derive(Deserialize)]
struct TagsBody {
    tags: Vec<String>,
    version: Option<i32>,
}

async fn set_tags(Path(id): Path<Uuid>, command: Command<TagsBody>) -> Result<Response, Problem> {
    let (TagsBody { tags, version }, mut command) = command.into_parts();
    commands::set_tags(&mut command.tx, id, tags, version).await?;
    respond(command, StatusCode::OK, id).await
}

#[derive(Deserialize)]
struct LabelsBody {
    labels: BTreeMap<String, String>,
    version: Option<i32>,
}

async fn set_labels(Path(id): Path<Uuid>, command: Command<LabelsBody>) -> Result<Response, Problem> {
    let (LabelsBody { labels, version }, mut command) = command.into_parts();
    commands::set_labels(&mut command.tx, id, labels, version).await?;
    respond(command, StatusCode::OK, id).await
}

#[derive(Deserialize)]
struct LinkBody {
    object_type: String,
    object_id: String,
    relation: Option<String>,
}

async fn add_link(Path(id): Path<Uuid>, command: Command<LinkBody>) -> Result<Response, Problem> {
    let (LinkBody { object_type, object_id, relation }, mut command) = command.into_parts();
    let relation = relation.as_deref().unwrap_or("related");
    let is_new = commands::add_link(&mut command.tx, id, (&object_type, &object_id), relation).await?;
    respond(command, if is_new { StatusCode::CREATED } else { StatusCode::OK }, id).await
}

async fn remove_link(
    Path((id, object_type, object_id)): Path<(Uuid, String, String)>,
    command: Command<Option<()>>,
) -> Result<Response, Problem> {
    let (_, mut command) = command.into_parts();
    commands::remove_link(&mut command.tx, id, (&object_type, &object_id)).await?;
    respond(command, StatusCode::OK, id).await
}

async fn erase(
    State(state): State<Arc<CrmState>>,
    Path(id): Path<Uuid>,
    command: Command<Option<()>>,
) -> Result<Response, Problem> {
    let (_, mut command) = command.into_parts();
    commands::erase(&mut command.tx, &state.keys, id).await?;
    respond(command, StatusCode::OK, id).await
}

async fn respond(command: Command, status: StatusCode, contact_id: Uuid) -> Result<Response, Problem> {
    let body = view(&command.tx, contact_id).await?;
    command.respond(status, &body).await
}

async fn view(tx: &Tx, contact_id: Uuid) -> Result<Value, CrmError> {
    let limit = |most: usize| i64::try_from(most).unwrap_or(i64::MAX);
    let contact = store::find_contact(tx, contact_id).await?.ok_or(CrmError::NotFound("contact"))?;
    let mut view = json!(contact);
    view["addresses"] = json!(store::list_addresses(tx, contact_id, limit(MAX_ADDRESSES)).await?);
    view["links"] = json!(store::list_links(tx, contact_id, limit(MAX_LINKS)).await?);
    Ok(view)
}
