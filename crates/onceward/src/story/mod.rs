//! The story of a request: every message that one correlation id set in motion, and what became of each.
//!
//! Nothing is invented. When a message was handled is not written down anywhere, so it is said to be handled and no
//! time is given; attempts that failed before one succeeded are forgotten with the success.

mod assemble;
mod told;
mod tree;
mod words;

pub use onceward_transport_postgres::story::{How, Part, Search, made_at};
pub use told::{Answer, Letter, Place, PlaceState, Publication, Published, Story, Told};
pub use words::in_words;

use crate::{Platform, store};
use jiff::SignedDuration;
use onceward_db::{Db, DbError, Scope};
use onceward_envelope::TenantId;
use onceward_transport_postgres::story;
use std::collections::BTreeSet;

/// A stored answer is looked for from this long before the first message on.
const ANSWER_BEFORE: SignedDuration = SignedDuration::from_hours(1);
/// Tenants whose stored answers are looked through at most.
const ANSWERS_OF: usize = 20;

/// Tells a story: `tenant`'s part of it, or all. `progress` hears of each partition before it is searched.
pub async fn tell(
    db: &Db,
    platform: &Platform,
    tenant: Option<&TenantId>,
    mut search: Search,
    progress: impl Fn(&Part),
) -> Result<Story, DbError> {
    let scope = tenant.map_or_else(|| Scope::platform("onceward"), |tenant| Scope::tenant(tenant.clone()));
    search.readers =
        platform.consumers().map(|consumer| (consumer.queue().to_owned(), consumer.name().to_owned())).collect();
    let found = story::find(db, &scope, &search, progress).await?;
    let mut notes = words::notes(&search, &found);
    let messages = assemble::messages(found, platform.topology());
    let answers = answers(db, tenant, &search, &messages, &mut notes).await?;
    Ok(Story { correlation_id: search.correlation, answers, messages, notes })
}

/// Stored answers know no correlation id, but the usual answer to a command names it in its body.
async fn answers(
    db: &Db,
    tenant: Option<&TenantId>,
    search: &Search,
    messages: &[Told],
    notes: &mut Vec<String>,
) -> Result<Vec<Answer>, DbError> {
    let mut tenants: BTreeSet<&str> = messages.iter().map(|message| message.tenant.as_str()).collect();
    tenants.extend(tenant.map(TenantId::as_str));
    if tenants.is_empty() {
        notes
            .push("stored HTTP answers were not looked for, because no tenant is known; name one with --tenant".into());
    } else if tenants.len() > ANSWERS_OF {
        notes.push(format!("stored HTTP answers were looked for in {ANSWERS_OF} of {} tenants", tenants.len()));
    }
    let first = messages.iter().filter_map(|message| message.written_at).min();
    let from = search.since.into_iter().chain(first.and_then(|at| at.checked_sub(ANSWER_BEFORE).ok())).min();
    let mut answers = Vec::new();
    for tenant in tenants.into_iter().take(ANSWERS_OF) {
        let Ok(id) = TenantId::new(tenant) else { continue };
        let mut tx = db.begin(Scope::tenant(id)).await?;
        tx.queue_statements(&format!("SET LOCAL statement_timeout = {}", search.timeout.as_millis()));
        let rows = match tx.query(store::ANSWERS, &[&search.correlation, &from]).await {
            Err(error) if story::gave_up(&error) => {
                notes.push(format!("stored HTTP answers of {tenant} were not searched to the end: {error}"));
                continue;
            }
            rows => rows?,
        };
        tx.rollback().await?;
        answers.extend(rows.iter().map(|row| Answer {
            tenant: tenant.to_owned(),
            status: row.get(0),
            at: row.get(1),
            expires_at: row.get(2),
            location: row.get(3),
        }));
    }
    Ok(answers)
}
