//! Who works on which object.

use super::{cut, fetched, page_size};
use crate::{
    CrmError, access,
    contacts::{commands, store},
    state::CrmState,
};
use onceward::{Idempotency, prelude::*, web::axum::extract::Query};
use serde::Deserialize;
use std::sync::Arc;

const ASSIGNMENT: &str = "/api/crm/assignments/{object_type}/{object_id}/{user_id}";
const MAX_OBJECT_TYPE: usize = 50;
const MAX_OBJECT_ID: usize = 100;
const MAX_USER_ID: usize = 255;

pub(super) fn routes() -> Routes<Arc<CrmState>> {
    Routes::new()
        .get("/api/crm/assignments", access::read(), list)
        .summary(
            "List the assignments of ?user=, paged with ?limit= and ?cursor=, or those of ?object_type= and ?object_id=",
        )
        .responds(200, "crm.assignment.list.v1")
        .put(ASSIGNMENT, access::admin(), set)
        .summary("Make a user the owner or an assignee of an object. The previous owner becomes an assignee")
        .idempotency(Idempotency::Optional)
        .request("crm.assignment.set.v1")
        .responds(200, "crm.assignment.v1")
        .delete(ASSIGNMENT, access::admin(), remove)
        .summary("End the assignment of a user")
        .responds(200, "crm.assignment.removed.v1")
}

#[derive(Deserialize)]
struct AssignmentQuery {
    user: Option<String>,
    object_type: Option<String>,
    object_id: Option<String>,
    cursor: Option<String>,
    limit: Option<u16>,
}

async fn list(Query(query): Query<AssignmentQuery>, reader: Reader) -> Result<Response, Problem> {
    let size = page_size(query.limit);
    let cursor = query.cursor.unwrap_or_default();
    // An object's type has no slash.
    let position = cursor.split_once('/').unwrap_or_default();
    let object = (query.object_type.as_deref(), query.object_id.as_deref());
    let mut assignments = match (query.user.as_deref(), object) {
        (Some(user), (None, None)) => store::list_assignments(&reader.tx, Some(user), position, fetched(size)).await?,
        (None, (Some(object_type), Some(object_id))) => {
            store::list_assignments(&reader.tx, None, (object_type, object_id), 0).await?
        }
        _ => return Err(CrmError::invalid("", "Name either `user`, or both `object_type` and `object_id`.").into()),
    };
    let has_more = query.user.is_some() && cut(&mut assignments, size);
    let next = assignments.last().filter(|_| has_more).map(|last| format!("{}/{}", last.object_type, last.object_id));
    reader.respond(&json!({ "assignments": assignments, "next": next })).await
}

#[derive(Deserialize)]
struct AssignmentBody {
    duty: String,
}

async fn set(
    Path((object_type, object_id, user_id)): Path<(String, String, String)>,
    command: Command<AssignmentBody>,
) -> Result<Response, Problem> {
    let (AssignmentBody { duty }, mut command) = command.into_parts();
    check_length("object_type", &object_type, MAX_OBJECT_TYPE)?;
    check_length("object_id", &object_id, MAX_OBJECT_ID)?;
    check_length("user_id", &user_id, MAX_USER_ID)?;
    let object = (object_type.as_str(), object_id.as_str());
    commands::set_assignment(&mut command.tx, object, &user_id, &duty).await?;
    let assignment = store::find_assignment(&command.tx, object, &user_id).await?;
    let assignment = assignment.ok_or(CrmError::NotFound("assignment"))?;
    command.respond(StatusCode::OK, &assignment).await
}

async fn remove(
    Path((object_type, object_id, user_id)): Path<(String, String, String)>,
    command: Command<Option<()>>,
) -> Result<Response, Problem> {
    let (_, mut command) = command.into_parts();
    commands::remove_assignment(&mut command.tx, (&object_type, &object_id), &user_id).await?;
    let body = json!({ "object_type": object_type, "object_id": object_id, "user_id": user_id });
    command.respond(StatusCode::OK, &body).await
}

fn check_length(name: &str, text: &str, most: usize) -> Result<(), CrmError> {
    if text.contains(char::is_control) || text.chars().count() > most {
        let what = format!("`{name}` must have at most {most} characters, without control characters.");
        return Err(CrmError::invalid("", what));
    }
    Ok(())
}
