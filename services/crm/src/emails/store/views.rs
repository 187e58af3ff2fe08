//! Mails as they are shown: whole, in lists, and in stories.

use jiff::Timestamp;
use onceward::{DbError, Row, Tx};
use serde_json::{Value, json};
use uuid::Uuid;

const SHOW: &str =
    "SELECT status, correlation_id, loan_id, contact_id, user_id, template_id, template_version, mail_class,
        delivery, attempts, last_error, requested_at, not_after, finished_at, artifact_id
    FROM crm.email WHERE email_id = $1";
const SHOW_RECIPIENTS: &str =
    "SELECT position, field, address_hash, state, feedback, provider, provider_id, reply_code,
        reason, handed_over_at, settled_at
    FROM crm.email_recipient WHERE email_id = $1 ORDER BY position";
const LIST_BY_LOAN: &str =
    "SELECT email_id, status, template_id, mail_class, loan_id, contact_id, requested_at, finished_at
    FROM crm.email WHERE loan_id = $1 AND email_id < $2 ORDER BY email_id DESC LIMIT $3";
const LIST_BY_CONTACT: &str =
    "SELECT email_id, status, template_id, mail_class, loan_id, contact_id, requested_at, finished_at
    FROM crm.email WHERE contact_id = $1 AND email_id < $2 ORDER BY email_id DESC LIMIT $3";
const OF_EVENTS: &str = "SELECT event_id, email_id, status, template_id, template_version, attempts,
        (SELECT count(*) FROM crm.email_recipient recipient WHERE recipient.email_id = email.email_id)
    FROM crm.email WHERE event_id = ANY ($1) ORDER BY email_id";

/// Returns a mail as the API shows it, or `None` if it does not exist.
pub(crate) async fn show(tx: &Tx, email_id: Uuid) -> Result<Option<Value>, DbError> {
    let Some(row) = tx.query_opt(SHOW, &[&email_id]).await? else { return Ok(None) };
    let recipients = tx.query(SHOW_RECIPIENTS, &[&email_id]).await?;
    Ok(Some(json!({
        "email_id": email_id,
        "status": row.get::<_, String>(0),
        "correlation_id": row.get::<_, String>(1),
        "loan_id": row.get::<_, Option<String>>(2),
        "contact_id": row.get::<_, Option<Uuid>>(3),
        "user_id": row.get::<_, Option<String>>(4),
        "template_id": row.get::<_, String>(5),
        "template_version": row.get::<_, i32>(6),
        "class": row.get::<_, String>(7),
        "delivery": row.get::<_, String>(8),
        "attempts": row.get::<_, i32>(9),
        "last_error": row.get::<_, Option<String>>(10),
        "requested_at": row.get::<_, Timestamp>(11),
        "not_after": row.get::<_, Option<Timestamp>>(12),
        "finished_at": row.get::<_, Option<Timestamp>>(13),
        "artifact_id": row.get::<_, Option<Uuid>>(14),
        "recipients": recipients.iter().map(recipient_view).collect::<Vec<_>>(),
    })))
}

fn recipient_view(row: &Row) -> Value {
    json!({
        "position": row.get::<_, i16>(0),
        "field": row.get::<_, String>(1),
        "address_hash": hex::encode(row.get::<_, Vec<u8>>(2)),
        "state": row.get::<_, String>(3),
        "feedback": row.get::<_, Option<String>>(4),
        "provider": row.get::<_, Option<String>>(5),
        "provider_id": row.get::<_, Option<String>>(6),
        "reply_code": row.get::<_, Option<i32>>(7),
        "reason": row.get::<_, Option<String>>(8),
        "handed_over_at": row.get::<_, Option<Timestamp>>(9),
        "settled_at": row.get::<_, Option<Timestamp>>(10),
    })
}

/// A mail in one line.
pub(crate) struct EmailSummary {
    pub event_id: Uuid,
    pub email_id: Uuid,
    pub status: String,
    pub template_id: String,
    pub template_version: i32,
    pub attempts: i32,
    pub recipients: i64,
}

/// Returns the mails that these messages requested.
pub(crate) async fn mails_of_events(tx: &Tx, events: &[Uuid]) -> Result<Vec<EmailSummary>, DbError> {
    let rows = tx.query(OF_EVENTS, &[&events]).await?;
    let summary = |row: &Row| EmailSummary {
        event_id: row.get(0),
        email_id: row.get(1),
        status: row.get(2),
        template_id: row.get(3),
        template_version: row.get(4),
        attempts: row.get(5),
        recipients: row.get(6),
    };
    Ok(rows.iter().map(summary).collect())
}

/// Which mails are listed.
pub(crate) enum EmailFilter<'f> {
    Loan(&'f str),
    Contact(Uuid),
}

/// Returns mails before `before`, latest first.
pub(crate) async fn list(tx: &Tx, filter: &EmailFilter<'_>, before: Uuid, limit: i64) -> Result<Vec<Value>, DbError> {
    let rows = match filter {
        EmailFilter::Loan(loan_id) => tx.query(LIST_BY_LOAN, &[loan_id, &before, &limit]).await?,
        EmailFilter::Contact(contact_id) => tx.query(LIST_BY_CONTACT, &[contact_id, &before, &limit]).await?,
    };
    let view = |row: &Row| {
        json!({
            "email_id": row.get::<_, Uuid>(0),
            "status": row.get::<_, String>(1),
            "template_id": row.get::<_, String>(2),
            "class": row.get::<_, String>(3),
            "loan_id": row.get::<_, Option<String>>(4),
            "contact_id": row.get::<_, Option<Uuid>>(5),
            "requested_at": row.get::<_, Timestamp>(6),
            "finished_at": row.get::<_, Option<Timestamp>>(7),
        })
    };
    Ok(rows.iter().map(view).collect())
}
