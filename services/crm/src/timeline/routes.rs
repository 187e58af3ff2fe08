//! The HTTP API of timelines.

use super::{rebuild, store};
use crate::{CrmError, access, contacts, state::CrmState};
use jiff::Timestamp;
use onceward::{prelude::*, web::axum::extract::Query};
use serde::Deserialize;
use std::sync::Arc;
use uuid::Uuid;

const DEFAULT_PAGE_SIZE: u16 = 50;
const MAX_PAGE_SIZE: u16 = 200;

pub(crate) fn routes() -> Routes<Arc<CrmState>> {
    Routes::new()
        .get("/api/crm/contacts/{id}/timeline", access::read(), list)
        .summary("List what happened to a contact, latest first. Page with ?limit= and ?cursor=")
        .responds(200, "crm.timeline.v1")
        .post("/api/crm/contacts/{id}/timeline/rebuild", access::admin(), rebuild_timeline)
        .summary("Recreate the timeline of a contact from the audit chain")
        .responds(200, "crm.timeline.rebuilt.v1")
}

#[derive(Deserialize)]
struct TimelineQuery {
    cursor: Option<String>,
    limit: Option<u16>,
}

async fn list(
    Path(contact_id): Path<Uuid>,
    Query(query): Query<TimelineQuery>,
    reader: Reader,
) -> Result<Response, Problem> {
    contacts::require(&reader.tx, contact_id).await?;
    let limit = usize::from(query.limit.unwrap_or(DEFAULT_PAGE_SIZE).clamp(1, MAX_PAGE_SIZE));
    let before = query.cursor.as_deref().map(read_cursor).transpose()?;
    // One more row than the page shows indicates that another page exists.
    let fetched = i64::try_from(limit + 1).unwrap_or(i64::MAX);
    let mut lines = store::list(&reader.tx, contact_id, before, fetched).await?;
    let has_more = lines.len() > limit;
    lines.truncate(limit);
    let cursor = |line: &store::TimelineLine| format!("{}_{}", line.occurred_at.as_microsecond(), line.entry_id);
    let next = lines.last().filter(|_| has_more).map(cursor);
    reader.respond(&json!({ "entries": lines, "next": next })).await
}

async fn rebuild_timeline(Path(contact_id): Path<Uuid>, command: Command<Option<()>>) -> Result<Response, Problem> {
    let (_, command) = command.into_parts();
    contacts::require(&command.tx, contact_id).await?;
    let entries = rebuild(&command.tx, contact_id).await?;
    command.respond(StatusCode::OK, &json!({ "contact_id": contact_id, "entries": entries })).await
}

/// Parses the time and the id of the last line of a page.
fn read_cursor(text: &str) -> Result<(Timestamp, Uuid), CrmError> {
    let parse = || {
        let (time, entry_id) = text.split_once('_')?;
        Some((Timestamp::from_microsecond(time.parse().ok()?).ok()?, entry_id.parse().ok()?))
    };
    parse().ok_or_else(|| CrmError::invalid("", "`cursor` must be the `next` of the page before."))
}
