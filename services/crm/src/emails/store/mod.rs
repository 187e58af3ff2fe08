//! The SQL of mails and their recipients.

mod views;

pub(crate) use views::{EmailFilter, EmailSummary, list, mails_of_events, show};

use super::{RecipientField, RecipientState};
use jiff::Timestamp;
use onceward::{Db, DbError, Tx};
use onceward_mail::class::MailClass;
use serde_json::Value;
use uuid::Uuid;

const INSERT_EMAIL: &str = "INSERT INTO crm.email
    (tenant_id, email_id, event_id, correlation_id, loan_id, contact_id, user_id, template_id, template_version,
     mail_class, delivery, variables_hash, not_after)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT DO NOTHING";
const INSERT_RECIPIENTS: &str = "INSERT INTO crm.email_recipient (tenant_id, email_id, position, field, address_hash)
    SELECT $1, $2, position, field, address_hash
    FROM unnest($3::smallint[], $4::text[], $5::bytea[]) AS recipient (position, field, address_hash)
    ON CONFLICT DO NOTHING";
const LOCK_EMAIL: &str = "SELECT template_id, template_version, mail_class, delivery, variables_hash, not_after,
        requested_at, attempts, contact_id, loan_id, event_id
    FROM crm.email WHERE email_id = $1 FOR UPDATE";
const RECIPIENTS: &str = "SELECT position, address_hash, state FROM crm.email_recipient
    WHERE email_id = $1 ORDER BY position";
/// Only a recipient to whom nothing was handed over is handed over: two workers never hand over the same one. `$5` is the
/// caller's own handover that came to nothing.
const HAND_OVER: &str = "UPDATE crm.email_recipient
    SET state = 'handed_over', handover_id = $3, handed_over_at = now(), provider = $4, reply_code = NULL, reason = NULL,
        settled_at = NULL
    WHERE email_id = $1 AND position = $2
        AND (state IN ('queued', 'deferred', 'failed') OR (state = 'handed_over' AND handover_id = $5))";
/// Hands over again what an earlier attempt handed over, where a repetition is allowed.
const REPEAT: &str = "UPDATE crm.email_recipient
    SET handover_id = $3, handed_over_at = now(), provider = $4
    WHERE email_id = $1 AND position = $2 AND state = 'handed_over'";
/// A report that came back before the result was recorded proves that the provider has the mail.
const SETTLE: &str = "UPDATE crm.email_recipient
    SET state = CASE WHEN $3 = 'unknown' AND feedback IS NOT NULL THEN 'accepted' ELSE $3 END,
        provider_id = $4, reply_code = $5, reason = $6, settled_at = now()
    WHERE email_id = $1 AND position = $2";
const REFUSE_OPEN: &str = "UPDATE crm.email_recipient SET state = 'refused', reason = $2, settled_at = now()
    WHERE email_id = $1 AND state IN ('queued', 'deferred', 'failed')";
const UPDATE_EMAIL: &str = "UPDATE crm.email
    SET status = $2, attempts = attempts + $3, last_error = coalesce($4, last_error),
        finished_at = CASE WHEN $5 THEN coalesce(finished_at, now()) END,
        artifact_id = coalesce($6, artifact_id)
    WHERE email_id = $1";
const INSERT_ATTEMPT: &str = "INSERT INTO crm.send_attempt
    (tenant_id, email_id, position, handover_id, provider, outcome, steps, started_at, duration_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING";
const MAY_WRITE_ABOUT: &str = "SELECT EXISTS (SELECT FROM crm.assignment
    WHERE object_type = $1 AND object_id = $2 AND user_id = $3)";
const CONTACT: &str = "SELECT display_name, given_name, family_name,
        (SELECT address FROM crm.contact_address address
         WHERE address.contact_id = contact.contact_id ORDER BY is_primary DESC, created_at LIMIT 1)
    FROM crm.contact WHERE contact_id = $1";
const RESOLVE: &str = "UPDATE crm.email_recipient
    SET state = $3, reason = $4, settled_at = now()
    WHERE email_id = $1 AND position = $2 AND state = 'unknown'";

/// A mail to be inserted.
pub(crate) struct NewEmail<'n> {
    pub email_id: Uuid,
    pub event_id: Uuid,
    pub correlation_id: &'n str,
    pub loan_id: Option<&'n str>,
    pub contact_id: Option<Uuid>,
    pub user_id: Option<&'n str>,
    pub template_id: &'n str,
    pub template_version: i32,
    pub class: MailClass,
    pub delivery: &'n str,
    pub variables_hash: &'n str,
    pub not_after: Option<Timestamp>,
}

/// Inserts a mail. Returns `false` if it exists.
pub(crate) async fn insert_email(tx: &Tx, new: &NewEmail<'_>) -> Result<bool, DbError> {
    let inserted = tx
        .execute(
            INSERT_EMAIL,
            &[
                &tx.tenant()?.as_str(),
                &new.email_id,
                &new.event_id,
                &new.correlation_id,
                &new.loan_id,
                &new.contact_id,
                &new.user_id,
                &new.template_id,
                &new.template_version,
                &new.class.as_str(),
                &new.delivery,
                &new.variables_hash,
                &new.not_after,
            ],
        )
        .await?;
    Ok(inserted == 1)
}

/// Inserts the recipients in their order.
pub(crate) async fn insert_recipients(
    tx: &Tx,
    email_id: Uuid,
    recipients: &[(RecipientField, Vec<u8>)],
) -> Result<(), DbError> {
    let positions: Vec<i16> = (0..).take(recipients.len()).collect();
    let fields: Vec<&str> = recipients.iter().map(|(field, _)| field.as_str()).collect();
    let hashes: Vec<&[u8]> = recipients.iter().map(|(_, hash)| hash.as_slice()).collect();
    tx.execute(INSERT_RECIPIENTS, &[&tx.tenant()?.as_str(), &email_id, &positions, &fields, &hashes]).await?;
    Ok(())
}

/// A mail that is locked until the transaction ends.
pub(crate) struct EmailRow {
    pub template_id: String,
    pub template_version: i32,
    pub class: MailClass,
    pub is_at_least_once: bool,
    pub delivery: String,
    pub variables_hash: String,
    pub not_after: Option<Timestamp>,
    pub requested_at: Timestamp,
    pub attempts: i32,
    pub contact_id: Option<Uuid>,
    pub loan_id: Option<String>,
    pub event_id: Uuid,
}

/// Locks a mail, or returns `None` if it does not exist.
pub(crate) async fn lock_email(tx: &Tx, email_id: Uuid) -> Result<Option<EmailRow>, DbError> {
    let row = tx.query_opt(LOCK_EMAIL, &[&email_id]).await?;
    Ok(row.map(|row| {
        let (class, delivery): (String, String) = (row.get(2), row.get(3));
        EmailRow {
            template_id: row.get(0),
            template_version: row.get(1),
            class: class.parse().unwrap_or(MailClass::Marketing),
            is_at_least_once: delivery == "at_least_once",
            delivery,
            variables_hash: row.get(4),
            not_after: row.get(5),
            requested_at: row.get(6),
            attempts: row.get(7),
            contact_id: row.get(8),
            loan_id: row.get(9),
            event_id: row.get(10),
        }
    }))
}

/// One recipient as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct RecipientRow {
    pub position: i16,
    pub address_hash: Vec<u8>,
    pub state: RecipientState,
}

pub(crate) async fn recipients(tx: &Tx, email_id: Uuid) -> Result<Vec<RecipientRow>, DbError> {
    let rows = tx.query(RECIPIENTS, &[&email_id]).await?;
    Ok(rows
        .iter()
        .map(|row| RecipientRow {
            position: row.get(0),
            address_hash: row.get(1),
            state: RecipientState::from_stored(row.get(2)),
        })
        .collect())
}

/// Records that a recipient's mail is about to be handed over. Returns `false` if another worker did so.
pub(crate) async fn hand_over(
    tx: &Tx,
    email_id: Uuid,
    position: i16,
    handover_id: Uuid,
    undone: Option<Uuid>,
    provider: &str,
) -> Result<bool, DbError> {
    Ok(tx.execute(HAND_OVER, &[&email_id, &position, &handover_id, &provider, &undone]).await? == 1)
}

/// Records that a mail is handed over again although the outcome of the earlier handover is unknown. The caller holds the
/// lock of the mail and may repeat it.
pub(crate) async fn repeat(
    tx: &Tx,
    email_id: Uuid,
    position: i16,
    handover_id: Uuid,
    provider: &str,
) -> Result<bool, DbError> {
    Ok(tx.execute(REPEAT, &[&email_id, &position, &handover_id, &provider]).await? == 1)
}

/// The result for one recipient.
#[derive(Clone, Debug)]
pub(crate) struct RecipientResult {
    pub position: i16,
    pub state: RecipientState,
    pub provider_id: Option<String>,
    pub reply_code: Option<i32>,
    pub reason: Option<String>,
}

pub(crate) async fn settle(tx: &Tx, email_id: Uuid, result: &RecipientResult) -> Result<(), DbError> {
    let RecipientResult { position, state, provider_id, reply_code, reason } = result;
    tx.execute(SETTLE, &[&email_id, position, &state.as_str(), provider_id, reply_code, reason]).await?;
    Ok(())
}

/// Refuses every recipient to whom nothing was handed over.
pub(crate) async fn refuse_open(tx: &Tx, email_id: Uuid, reason: &str) -> Result<(), DbError> {
    tx.execute(REFUSE_OPEN, &[&email_id, &reason]).await?;
    Ok(())
}

/// The change of a mail after its recipients have changed.
pub(crate) struct EmailUpdate<'u> {
    pub status: &'u str,
    pub is_final: bool,
    pub new_attempts: i32,
    pub last_error: Option<&'u str>,
    pub artifact_id: Option<Uuid>,
}

pub(crate) async fn update_email(tx: &Tx, email_id: Uuid, update: &EmailUpdate<'_>) -> Result<(), DbError> {
    let EmailUpdate { status, is_final, new_attempts, last_error, artifact_id } = update;
    tx.execute(UPDATE_EMAIL, &[&email_id, status, new_attempts, last_error, is_final, artifact_id]).await?;
    Ok(())
}

/// A call of a provider, with the steps of the conversation.
#[derive(Clone, Debug)]
pub(crate) struct ProviderCall {
    pub position: i16,
    pub handover_id: Uuid,
    pub provider: String,
    pub outcome: &'static str,
    pub steps: Value,
    pub started_at: Timestamp,
    pub duration_ms: i32,
}

pub(crate) async fn insert_attempt(tx: &Tx, email_id: Uuid, attempt: &ProviderCall) -> Result<(), DbError> {
    let ProviderCall { position, handover_id, provider, outcome, steps, started_at, duration_ms } = attempt;
    tx.execute(
        INSERT_ATTEMPT,
        &[&tx.tenant()?.as_str(), &email_id, position, handover_id, provider, outcome, steps, started_at, duration_ms],
    )
    .await?;
    Ok(())
}

/// Returns whether a user owns an object or is assigned to it.
pub(crate) async fn is_assigned(tx: &Tx, object_type: &str, object_id: &str, user: &str) -> Result<bool, DbError> {
    Ok(tx.query_one(MAY_WRITE_ABOUT, &[&object_type, &object_id, &user]).await?.get(0))
}

/// What a mail needs to know about its contact.
pub(crate) struct ContactRow {
    pub display_name: String,
    pub given_name: Option<String>,
    pub family_name: Option<String>,
    pub address: Option<String>,
}

pub(crate) async fn contact(tx: &Tx, contact_id: Uuid) -> Result<Option<ContactRow>, DbError> {
    let row = tx.query_opt(CONTACT, &[&contact_id]).await?;
    Ok(row.map(|row| ContactRow {
        display_name: row.get(0),
        given_name: row.get(1),
        family_name: row.get(2),
        address: row.get(3),
    }))
}

/// Settles a recipient whose outcome is unknown. Returns `false` if it is not.
pub(crate) async fn resolve_unknown(
    tx: &Tx,
    email_id: Uuid,
    position: i16,
    state: RecipientState,
    reason: &str,
) -> Result<bool, DbError> {
    Ok(tx.execute(RESOLVE, &[&email_id, &position, &state.as_str(), &reason]).await? == 1)
}

const QUEUE_LAG: &str = "SELECT crm.queue_lag_seconds()";

/// Returns the age of the oldest mail that is not finished, over all tenants.
pub(crate) async fn queue_lag_seconds(db: &Db) -> Result<f64, DbError> {
    Ok(db.connection().await?.query(QUEUE_LAG, &[]).await?[0].get(0))
}
