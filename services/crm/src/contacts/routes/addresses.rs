//! Addresses of a contact.

use crate::{
    CrmError, access,
    contacts::{
        commands::{self, AddressDraft, AddressPatch},
        store,
    },
    state::CrmState,
};
use onceward::{prelude::*, web::axum::extract::State};
use std::sync::Arc;
use uuid::Uuid;

const ADDRESSES: &str = "/api/crm/contacts/{id}/addresses";
const ADDRESS: &str = "/api/crm/contacts/{id}/addresses/{address_id}";

pub(super) fn routes() -> Routes<Arc<CrmState>> {
    Routes::new()
        .post(ADDRESSES, access::write(), add)
        .summary("Add an address to a contact. The first one becomes the primary address")
        .request("crm.address.new.v1")
        .responds(201, "crm.address.v1")
        .patch(ADDRESS, access::write(), update)
        .summary("Make an address the primary one, mark it as verified or not, or change its label")
        .request("crm.address.change.v1")
        .responds(200, "crm.address.v1")
        .delete(ADDRESS, access::write(), remove)
        .summary("Remove an address. The oldest other one becomes primary if it was")
        .responds(200, "crm.address.removed.v1")
}

async fn add(
    State(state): State<Arc<CrmState>>,
    Path(contact_id): Path<Uuid>,
    command: Command<AddressDraft>,
) -> Result<Response, Problem> {
    let (draft, mut command) = command.into_parts();
    let address_id = commands::add_address(&mut command.tx, &state.keys, contact_id, draft).await?;
    respond(command, StatusCode::CREATED, contact_id, address_id).await
}

async fn update(
    Path((contact_id, address_id)): Path<(Uuid, Uuid)>,
    command: Command<AddressPatch>,
) -> Result<Response, Problem> {
    let (patch, mut command) = command.into_parts();
    commands::update_address(&mut command.tx, contact_id, address_id, patch).await?;
    respond(command, StatusCode::OK, contact_id, address_id).await
}

async fn remove(
    Path((contact_id, address_id)): Path<(Uuid, Uuid)>,
    command: Command<Option<()>>,
) -> Result<Response, Problem> {
    let (_, mut command) = command.into_parts();
    commands::remove_address(&mut command.tx, contact_id, address_id).await?;
    command.respond(StatusCode::OK, &json!({ "address_id": address_id })).await
}

async fn respond(
    command: Command,
    status: StatusCode,
    contact_id: Uuid,
    address_id: Uuid,
) -> Result<Response, Problem> {
    let address = store::find_address(&command.tx, contact_id, address_id).await?;
    let address = address.ok_or(CrmError::NotFound("address"))?;
    command.respond(status, &address).await
}
