//! Recipients, and the reports that were recorded about them.

use crate::feedback::{Feedback, FeedbackKind};
use jiff::Timestamp;
use onceward::{DbError, Row, Tx};
use onceward_mail::class::MailClass;
use uuid::Uuid;

/// Reports that are read per recipient. A recipient has a handful.
const REPORTS_MAX: i64 = 1_000;

/// Locks the mail, as the sending path does.
const LOCK_MAIL: &str = "SELECT mail_class, contact_id, loan_id, correlation_id FROM crm.email
    WHERE email_id = $1 FOR UPDATE";
const MAIL: &str = "SELECT mail_class, contact_id, loan_id, correlation_id FROM crm.email WHERE email_id = $1";
const RECIPIENT: &str = "SELECT address_hash, feedback FROM crm.email_recipient WHERE email_id = $1 AND position = $2";
const INSERT: &str = "INSERT INTO crm.feedback
    (tenant_id, feedback_id, source, source_id, email_id, position, address_hash, kind, is_hard, status_code, class,
     joined_by, occurred_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT DO NOTHING";
const REPORTS: &str = "SELECT kind, occurred_at FROM crm.feedback
    WHERE email_id = $1 AND position = $2 ORDER BY occurred_at DESC LIMIT $3";
const SET_FEEDBACK: &str = "UPDATE crm.email_recipient SET feedback = $3 WHERE email_id = $1 AND position = $2";

/// A recipient of a mail, with the mail's own facts.
#[derive(Clone, Debug)]
pub(crate) struct MailRecipient {
    pub email_id: Uuid,
    pub position: i16,
    pub address_hash: Vec<u8>,
    pub class: MailClass,
    pub contact_id: Option<Uuid>,
    pub loan_id: Option<String>,
    pub correlation_id: String,
    pub feedback: Option<String>,
}

/// Locks a mail and returns one of its recipients, or `None` if there is no such recipient.
pub(crate) async fn lock_recipient(tx: &Tx, email_id: Uuid, position: i16) -> Result<Option<MailRecipient>, DbError> {
    let mail = tx.query_opt(LOCK_MAIL, &[&email_id]).await?;
    read_recipient(tx, mail, email_id, position).await
}

/// Returns a recipient of a mail without a lock.
pub(crate) async fn find_recipient(tx: &Tx, email_id: Uuid, position: i16) -> Result<Option<MailRecipient>, DbError> {
    let mail = tx.query_opt(MAIL, &[&email_id]).await?;
    read_recipient(tx, mail, email_id, position).await
}

async fn read_recipient(
    tx: &Tx,
    mail: Option<Row>,
    email_id: Uuid,
    position: i16,
) -> Result<Option<MailRecipient>, DbError> {
    let Some(mail) = mail else { return Ok(None) };
    let row = tx.query_opt(RECIPIENT, &[&email_id, &position]).await?;
    Ok(row.map(|row| MailRecipient {
        email_id,
        position,
        address_hash: row.get(0),
        class: mail.get::<_, &str>(0).parse().unwrap_or(MailClass::Marketing),
        contact_id: mail.get(1),
        loan_id: mail.get(2),
        correlation_id: mail.get(3),
        feedback: row.get(1),
    }))
}

/// Records a report. Returns `None` if it was recorded before, and its id otherwise.
pub(crate) async fn insert_feedback(
    tx: &Tx,
    recipient: &MailRecipient,
    feedback: &Feedback,
) -> Result<Option<Uuid>, DbError> {
    let feedback_id = Uuid::now_v7();
    let (is_hard, class, status) = match &feedback.kind {
        FeedbackKind::Bounced { is_hard, class, status } => (*is_hard, Some(class), status.as_ref()),
        _ => (false, None, None),
    };
    let inserted = tx
        .execute(
            INSERT,
            &[
                &tx.tenant()?.as_str(),
                &feedback_id,
                &feedback.source,
                &feedback.source_id,
                &feedback.email_id,
                &feedback.position,
                &recipient.address_hash,
                &feedback.kind.as_str(),
                &is_hard,
                &status,
                &class,
                &feedback.joined_by.as_str(),
                &feedback.occurred_at,
            ],
        )
        .await?;
    Ok((inserted == 1).then_some(feedback_id))
}

/// Returns the kinds and times of the latest reports about a recipient.
pub(crate) async fn recipient_reports(
    tx: &Tx,
    email_id: Uuid,
    position: i16,
) -> Result<Vec<(String, Timestamp)>, DbError> {
    let rows = tx.query(REPORTS, &[&email_id, &position, &REPORTS_MAX]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

pub(crate) async fn set_recipient_feedback(
    tx: &Tx,
    email_id: Uuid,
    position: i16,
    feedback: &str,
) -> Result<(), DbError> {
    tx.execute(SET_FEEDBACK, &[&email_id, &position, &feedback]).await?;
    Ok(())
}
