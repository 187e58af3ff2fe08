//! Adds what became of a requested mail to the story that `onceward trace` shows.

use crate::emails::store::{self, EmailSummary};
use onceward::{Db, DbError, Scope, TenantId, story::Contribution};
use serde_json::json;
use uuid::Uuid;

/// Returns one contribution per mail that these messages requested.
pub(crate) async fn contributions(db: Db, tenant: TenantId, events: Vec<Uuid>) -> Result<Vec<Contribution>, DbError> {
    let tx = db.begin(Scope::for_tenant(tenant)).await?;
    let mails = store::mails_of_events(&tx, &events).await?;
    tx.rollback().await?;
    Ok(mails.into_iter().map(contribution).collect())
}

fn contribution(mail: EmailSummary) -> Contribution {
    let EmailSummary { event_id, email_id, status, template_id, template_version, attempts, recipients } = mail;
    let count = |count: i64, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    let line = format!(
        "mail {email_id} by template {template_id} version {template_version} to {}: {status} after {}",
        count(recipients, "recipient", "recipients"),
        count(i64::from(attempts), "attempt", "attempts"),
    );
    let data = json!({
        "email_id": email_id, "status": status, "template_id": template_id, "template_version": template_version,
        "attempts": attempts, "recipients": recipients,
    });
    Contribution { service: "", event_id, lines: vec![line], data }
}
