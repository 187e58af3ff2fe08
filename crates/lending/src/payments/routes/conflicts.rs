//! Conflicts, for operators.

use crate::LendingError;
use crate::payments::{problems::PAYMENT_REFUSES, store};
use onceward::{prelude::*, web::axum::extract::Query};
use onceward_audit::{self as audit, Entry};
use serde::Deserialize;
use uuid::Uuid;

const PAGE: u16 = 50;
const PAGE_MAX: u16 = 500;

#[derive(Deserialize)]
pub(super) struct ListQuery {
    #[serde(default)]
    all: bool,
    after: Option<Uuid>,
    limit: Option<u16>,
}

pub(super) async fn list(Query(query): Query<ListQuery>, reader: Reader) -> Result<Response, Problem> {
    let limit = usize::from(query.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX));
    // One more than is shown tells whether there is another page.
    let mut conflicts = store::list_conflicts(&reader.tx, query.all, query.after, limit as i64 + 1).await?;
    let more = conflicts.len() > limit;
    conflicts.truncate(limit);
    let next = conflicts.last().filter(|_| more).map(|last| last.conflict_id);
    reader.respond(&json!({"conflicts": conflicts, "next": next})).await
}

#[derive(Deserialize)]
pub(super) struct Resolve {
    resolution: String,
    note: Option<String>,
}

pub(super) async fn resolve(Path(id): Path<Uuid>, command: Command<Resolve>) -> Result<Response, Problem> {
    let (Resolve { resolution, note }, mut command) = command.into_parts();
    let missing = || Problem::new(codes::NOT_FOUND).detail("There is no such conflict.");
    let known = store::find_conflict(&command.tx, id).await?.ok_or_else(missing)?;
    if known.resolved_at.is_some() {
        return Err(Problem::new(PAYMENT_REFUSES).detail("The conflict is resolved already."));
    }
    let resolved = store::resolve_conflict(&command.tx, id, &resolution, note.as_deref()).await?;
    let entry = Entry::new("payment_conflict_resolved").object("payment", resolved.payment_id);
    let payload = json!({"conflict_id": id, "resolution": resolution, "note": note});
    audit::record(&mut command.tx, entry.payload(payload)).map_err(LendingError::from)?;
    command.respond(StatusCode::OK, &resolved).await
}
