//! Adds what services know about the messages of a story.

use super::StoryMessage;
use onceward::{Db, Platform, TenantId, story::Contribution};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Messages of one tenant that a service is queried about at a time.
const MESSAGES_PER_QUERY: usize = 1_000;

/// Asks every service about the messages. A service that fails adds a note; the story does not fail.
pub(super) async fn add(db: &Db, platform: &Platform, messages: &mut [StoryMessage], notes: &mut Vec<String>) {
    let mut by_tenant: BTreeMap<String, Vec<Uuid>> = BTreeMap::new();
    for message in messages.iter() {
        by_tenant.entry(message.tenant.clone()).or_default().push(message.event_id);
    }
    for (service, contributor) in platform.contributors() {
        for (tenant, ids) in &by_tenant {
            let Ok(tenant) = TenantId::new(tenant) else { continue };
            for ids in ids.chunks(MESSAGES_PER_QUERY) {
                match contributor(db.clone(), tenant.clone(), ids.to_vec()).await {
                    Ok(found) => found.into_iter().for_each(|one| attach(messages, Contribution { service, ..one })),
                    Err(error) => notes.push(format!(
                        "looking up what {service} knows about the messages of {tenant} failed: {error}"
                    )),
                }
            }
        }
    }
}

fn attach(messages: &mut [StoryMessage], contribution: Contribution) {
    if let Some(message) = messages.iter_mut().find(|message| message.event_id == contribution.event_id) {
        message.contributions.push(contribution);
    }
}
