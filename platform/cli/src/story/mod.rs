//! The story of a request: every message that one correlation id caused, and what became of each.
//!
//! Services add what they know beyond the bus ([`onceward::Service::story`]).
//!
//! Nothing is invented. The time at which a message was handled is not recorded, so it is reported as handled without a
//! time. Failed attempts are recorded with their times and errors, and kept as long as the log.

mod assemble;
mod contributions;
mod linked;
mod model;
mod render;
mod tree;

pub use model::{
    DeliveryState, FailedAttempt, Publication, PublicationState, QueueDelivery, Story, StoryDeadLetter, StoryMessage,
    StoryResponse,
};
pub use onceward_message_log::story::{SearchMethod, SearchedPartition, StorySearch, uuid_created_at};
pub use render::render;

use crate::store;
use jiff::SignedDuration;
use onceward::Platform;
use onceward_db::{Db, DbError, Scope};
use onceward_envelope::TenantId;
use onceward_message_log::story;
use std::collections::BTreeSet;

/// The search for a stored response begins this long before the first message.
const RESPONSE_BEFORE: SignedDuration = SignedDuration::from_hours(1);
/// The stored responses of at most this many tenants are searched.
const RESPONSE_TENANTS_MAX: usize = 20;

/// Loads a story: `tenant`'s part of it, or all of it. Calls `progress` with each partition before searching it.
pub async fn load(
    db: &Db,
    platform: &Platform,
    tenant: Option<&TenantId>,
    mut search: StorySearch,
    progress: impl Fn(&SearchedPartition),
) -> Result<Story, DbError> {
    let scope = tenant.map_or_else(|| Scope::platform("onceward"), |tenant| Scope::for_tenant(tenant.clone()));
    search.readers =
        platform.consumers().map(|consumer| (consumer.queue().to_owned(), consumer.name().to_owned())).collect();
    let mut service_notes = Vec::new();
    let linked = linked::correlation_ids(db, platform, &scope, &search, &mut service_notes).await?;
    let searches: Vec<StorySearch> = linked.iter().map(|id| linked::search_for(&search, id)).collect();
    search.since = search.since.or_else(|| linked::earliest_start(&linked));
    let mut found = story::find(db, &scope, &search, &progress).await?;
    for search in &searches {
        linked::merge(&mut found, story::find(db, &scope, search, |_| {}).await?);
    }
    let mut notes = render::notes(&search, &found);
    notes.extend(linked::note(&linked).into_iter().chain(service_notes));
    let mut messages = assemble::messages(found, platform.topology());
    contributions::add(db, platform, &mut messages, &mut notes).await;
    let responses = find_responses(db, tenant, &search, &messages, &mut notes).await?;
    Ok(Story { correlation_id: search.correlation, linked, responses, messages, notes })
}

/// Finds stored responses. They have no correlation id of their own, but the body of a command's response usually contains it.
async fn find_responses(
    db: &Db,
    tenant: Option<&TenantId>,
    search: &StorySearch,
    messages: &[StoryMessage],
    notes: &mut Vec<String>,
) -> Result<Vec<StoryResponse>, DbError> {
    let mut tenants: BTreeSet<&str> = messages.iter().map(|message| message.tenant.as_str()).collect();
    tenants.extend(tenant.map(TenantId::as_str));
    if tenants.is_empty() {
        notes.push("stored HTTP responses were not searched because no tenant is known; name one with --tenant".into());
    } else if tenants.len() > RESPONSE_TENANTS_MAX {
        notes.push(format!(
            "stored HTTP responses of only {RESPONSE_TENANTS_MAX} of {} tenants were searched",
            tenants.len()
        ));
    }
    let first = messages.iter().filter_map(|message| message.written_at).min();
    let from = search.since.into_iter().chain(first.and_then(|at| at.checked_sub(RESPONSE_BEFORE).ok())).min();
    let mut responses = Vec::new();
    for tenant in tenants.into_iter().take(RESPONSE_TENANTS_MAX) {
        let Ok(id) = TenantId::new(tenant) else { continue };
        let mut tx = db.begin(Scope::for_tenant(id)).await?;
        tx.queue_statements(&format!("SET LOCAL statement_timeout = {}", search.timeout.as_millis()));
        let rows = match tx.query(store::STORED_RESPONSES, &[&search.correlation, &from]).await {
            Err(error) if story::is_search_aborted(&error) => {
                notes.push(format!("the search of the stored HTTP responses of {tenant} did not finish: {error}"));
                continue;
            }
            rows => rows?,
        };
        tx.rollback().await?;
        responses.extend(rows.iter().map(|row| StoryResponse {
            tenant: tenant.to_owned(),
            status: row.get(0),
            at: row.get(1),
            expires_at: row.get(2),
            location: row.get(3),
        }));
    }
    Ok(responses)
}
