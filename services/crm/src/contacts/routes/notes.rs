//! Notes about a contact.

use super::{cut, fetched, page_size};
use crate::{
    CrmError, access,
    contacts::{self, commands, store},
    state::CrmState,
};
use onceward::{
    prelude::*,
    web::axum::extract::{Query, State},
};
use serde::Deserialize;
use std::sync::Arc;
use uuid::Uuid;

const NOTES: &str = "/api/crm/contacts/{id}/notes";

pub(super) fn routes() -> Routes<Arc<CrmState>> {
    Routes::new()
        .post(NOTES, access::write(), add)
        .summary("Add a note about a contact")
        .request("crm.note.new.v1")
        .responds(201, "crm.note.v1")
        .get(NOTES, access::read(), list)
        .summary("List the notes about a contact, latest first. Page with ?limit= and ?cursor=")
        .responds(200, "crm.note.list.v1")
        .delete("/api/crm/contacts/{id}/notes/{note_id}", access::write(), remove)
        .summary("Remove a note")
        .responds(200, "crm.note.removed.v1")
}

#[derive(Deserialize)]
struct NoteBody {
    body: String,
}

async fn add(
    State(state): State<Arc<CrmState>>,
    Path(contact_id): Path<Uuid>,
    command: Command<NoteBody>,
) -> Result<Response, Problem> {
    let (NoteBody { body }, mut command) = command.into_parts();
    let note_id = commands::add_note(&mut command.tx, &state.keys, contact_id, &body).await?;
    let note = store::find_note(&command.tx, contact_id, note_id).await?.ok_or(CrmError::NotFound("note"))?;
    command.respond(StatusCode::CREATED, &note).await
}

#[derive(Deserialize)]
struct NoteListQuery {
    cursor: Option<Uuid>,
    limit: Option<u16>,
}

async fn list(
    Path(contact_id): Path<Uuid>,
    Query(query): Query<NoteListQuery>,
    reader: Reader,
) -> Result<Response, Problem> {
    contacts::require(&reader.tx, contact_id).await?;
    let size = page_size(query.limit);
    let mut notes = store::list_notes(&reader.tx, contact_id, query.cursor, fetched(size)).await?;
    let has_more = cut(&mut notes, size);
    let next = notes.last().filter(|_| has_more).map(|last| last.note_id);
    reader.respond(&json!({ "notes": notes, "next": next })).await
}

async fn remove(
    State(state): State<Arc<CrmState>>,
    Path((contact_id, note_id)): Path<(Uuid, Uuid)>,
    command: Command<Option<()>>,
) -> Result<Response, Problem> {
    let (_, mut command) = command.into_parts();
    commands::remove_note(&mut command.tx, &state.keys, contact_id, note_id).await?;
    command.respond(StatusCode::OK, &json!({ "note_id": note_id })).await
}
