//! Classes of mail that are stopped for a tenant, and the numbers by which they are stopped.

use jiff::Timestamp;
use onceward::{DbError, Tx};
use serde::Serialize;

/// Complaints about a class in the last 7 days, and since a stop of the class was last lifted.
const COMPLAINTS: &str = "SELECT count(DISTINCT (feedback.email_id, feedback.position))
    FROM crm.feedback
    JOIN crm.email ON email.email_id = feedback.email_id AND email.tenant_id = feedback.tenant_id
    WHERE feedback.kind = 'complained' AND email.mail_class = $1
      AND feedback.received_at > greatest(now() - interval '7 days',
          (SELECT resumed_at FROM crm.class_resumption WHERE mail_class = $1))";
/// Recipients whose mail was sent in the last 7 days, counted up to a limit.
const SENT: &str = "SELECT count(*) FROM (
    SELECT FROM crm.email
    JOIN crm.email_recipient recipient
        ON recipient.email_id = email.email_id AND recipient.tenant_id = email.tenant_id
    WHERE email.mail_class = $1 AND email.requested_at > now() - interval '7 days' AND recipient.state = 'accepted'
    LIMIT $2) sent";
const INSERT: &str = "INSERT INTO crm.class_stop (tenant_id, mail_class, reason) VALUES ($1, $2, $3)
    ON CONFLICT DO NOTHING";
const DELETE: &str = "DELETE FROM crm.class_stop WHERE mail_class = $1";
const RESUME: &str = "INSERT INTO crm.class_resumption (tenant_id, mail_class, resumed_at)
    VALUES ($1, $2, clock_timestamp())
    ON CONFLICT (mail_class, tenant_id) DO UPDATE SET resumed_at = clock_timestamp()";
const LIST: &str = "SELECT mail_class, reason, since FROM crm.class_stop ORDER BY mail_class";

/// A class of mail that is stopped.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ClassStop {
    pub mail_class: String,
    pub reason: String,
    pub since: Timestamp,
}

/// Returns the number of recipients who complained about a class.
pub(crate) async fn count_complaints(tx: &Tx, class: &str) -> Result<i64, DbError> {
    Ok(tx.query_one(COMPLAINTS, &[&class]).await?.get(0))
}

/// Returns the number of recipients to whom a mail of the class was sent, at most `limit`.
pub(crate) async fn count_sent(tx: &Tx, class: &str, limit: i64) -> Result<i64, DbError> {
    Ok(tx.query_one(SENT, &[&class, &limit]).await?.get(0))
}

/// Stops a class. Returns `false` if it is stopped already.
pub(crate) async fn insert_class_stop(tx: &Tx, class: &str, reason: &str) -> Result<bool, DbError> {
    Ok(tx.execute(INSERT, &[&tx.tenant()?.as_str(), &class, &reason]).await? == 1)
}

/// Lifts the stop of a class, and forgets the complaints that led to it. Returns `false` if it is not stopped.
pub(crate) async fn lift_class_stop(tx: &Tx, class: &str) -> Result<bool, DbError> {
    if tx.execute(DELETE, &[&class]).await? == 0 {
        return Ok(false);
    }
    tx.execute(RESUME, &[&tx.tenant()?.as_str(), &class]).await?;
    Ok(true)
}

/// Returns the stopped classes of the tenant; there are at most three.
pub(crate) async fn list_class_stops(tx: &Tx) -> Result<Vec<ClassStop>, DbError> {
    let rows = tx.query(LIST, &[]).await?;
    Ok(rows.iter().map(|row| ClassStop { mail_class: row.get(0), reason: row.get(1), since: row.get(2) }).collect())
}
