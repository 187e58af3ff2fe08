//! Recreates a timeline from the audit chain.

use super::store::{self, TimelineLine};
use crate::CrmError;
use onceward::Tx;
use onceward_audit::{EntryFilter, RecordedEntry};
use serde_json::{Value, json};
use uuid::Uuid;

/// Entries per query.
const PAGE: u32 = 500;
const PREFIX: &str = "CRM.";
const CREATED: &str = "CRM.CONTACT.CREATED";

/// Deletes the lines of a contact and recreates them from the tenant's audit chain. Returns their number.
///
/// A line is committed with its entry, so lines that others add in the meantime are kept: either their entry is read here,
/// or they were not deleted.
pub(crate) async fn rebuild(tx: &Tx, contact_id: Uuid) -> Result<u64, CrmError> {
    store::delete(tx, contact_id).await?;
    let newest = EntryFilter::default();
    let Some(last) = onceward_audit::list(tx, &newest, None, 1).await?.first().map(|entry| entry.link.seq) else {
        return Ok(0);
    };
    let (mut after, mut count) = (entry_before_creation(tx, contact_id).await?, 0);
    while after < last {
        let page = onceward_audit::page(tx, after, last, PAGE).await?;
        let Some(end) = page.last().map(|entry| entry.link.seq) else { break };
        for line in page.iter().filter_map(|entry| line_of(entry, contact_id)) {
            store::insert(tx, &line).await?;
            count += 1;
        }
        after = end;
    }
    Ok(count)
}

/// Nothing happened to a contact before it was created, which an index of the chain finds.
async fn entry_before_creation(tx: &Tx, contact_id: Uuid) -> Result<i64, CrmError> {
    let filter = EntryFilter {
        object_type: Some("contact".into()),
        object_id: Some(contact_id.to_string()),
        event_type: Some(CREATED.into()),
        ..EntryFilter::default()
    };
    let created = onceward_audit::list(tx, &filter, None, 1).await?;
    Ok(created.first().map_or(0, |entry| entry.link.seq - 1))
}

/// Returns the line that was written with this entry, or `None` if it does not concern the contact.
fn line_of(entry: &RecordedEntry, contact_id: Uuid) -> Option<TimelineLine> {
    if !entry.event_type.starts_with(PREFIX) {
        return None;
    }
    let document = entry.document();
    let payload = &document["payload"];
    let id = |name: &str| payload[name].as_str().and_then(|text| text.parse::<Uuid>().ok());
    if id("contactId") != Some(contact_id) {
        return None;
    }
    Some(TimelineLine {
        contact_id,
        entry_id: id("entryId")?,
        occurred_at: entry.occurred_at,
        event_type: entry.event_type.clone(),
        email_id: id("emailId"),
        actor: entry.actor.clone(),
        detail: payload.get("detail").filter(|detail| **detail != Value::Null).cloned().unwrap_or_else(|| json!({})),
    })
}
