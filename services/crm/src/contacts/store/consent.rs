//! Consent, given and withdrawn. The latest row of a class counts.

use crate::{changes::actor, contacts::model::ConsentRecord};
use jiff::Timestamp;
use onceward::{DbError, Tx};
use serde::Serialize;
use uuid::Uuid;

const LIST: &str = "
    SELECT consent_id, mail_class, is_given, basis, source, text_version, actor, recorded_at
    FROM crm.consent
    WHERE contact_id = $1
    ORDER BY consent_id DESC
    LIMIT $2";
const INSERT: &str = "
    INSERT INTO crm.consent (tenant_id, consent_id, contact_id, mail_class, is_given, basis, source, text_version, actor)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";

/// Records shown per contact, latest first.
const RECORDS_SHOWN: i64 = 200;

/// A record of consent as it is stored.
#[derive(Clone, Debug, Serialize)]
pub(in crate::contacts) struct Consent {
    pub consent_id: Uuid,
    pub class: String,
    pub is_given: bool,
    pub basis: String,
    pub source: String,
    pub text_version: String,
    pub actor: Option<String>,
    pub recorded_at: Timestamp,
}

pub(in crate::contacts) async fn list_consents(tx: &Tx, contact_id: Uuid) -> Result<Vec<Consent>, DbError> {
    let rows = tx.query(LIST, &[&contact_id, &RECORDS_SHOWN]).await?;
    let consents = rows.iter().map(|row| Consent {
        consent_id: row.get("consent_id"),
        class: row.get("mail_class"),
        is_given: row.get("is_given"),
        basis: row.get("basis"),
        source: row.get("source"),
        text_version: row.get("text_version"),
        actor: row.get("actor"),
        recorded_at: row.get("recorded_at"),
    });
    Ok(consents.collect())
}

pub(in crate::contacts) async fn insert_consent(
    tx: &Tx,
    contact_id: Uuid,
    consent_id: Uuid,
    record: &ConsentRecord,
) -> Result<(), DbError> {
    let ConsentRecord { class, is_given, basis, source, text_version } = record;
    let tenant = tx.tenant()?.as_str();
    let actor = actor(tx);
    tx.execute(INSERT, &[&tenant, &consent_id, &contact_id, class, is_given, basis, source, text_version, &actor])
        .await
        .map(drop)
}
