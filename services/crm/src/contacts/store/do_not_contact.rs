//! Who must not be written to.

use crate::changes::actor;
use jiff::Timestamp;
use onceward::{DbError, Row, Tx};
use serde::Serialize;
use uuid::Uuid;

const LIST: &str = "
    SELECT dnc_id, mail_class, reason, set_by, set_at, lifted_by, lifted_at
    FROM crm.do_not_contact
    WHERE contact_id = $1
    ORDER BY dnc_id DESC
    LIMIT $2";
const IN_FORCE: &str = "
    SELECT dnc_id, mail_class, reason, set_by, set_at, lifted_by, lifted_at
    FROM crm.do_not_contact
    WHERE contact_id = $1 AND mail_class = $2 AND lifted_at IS NULL";
const LOCK: &str = "
    SELECT dnc_id, mail_class, reason, set_by, set_at, lifted_by, lifted_at
    FROM crm.do_not_contact
    WHERE dnc_id = $1 AND contact_id = $2
    FOR NO KEY UPDATE";
const INSERT: &str = "
    INSERT INTO crm.do_not_contact (tenant_id, dnc_id, contact_id, mail_class, reason, set_by)
    VALUES ($1, $2, $3, $4, $5, $6)";
const LIFT: &str = "UPDATE crm.do_not_contact SET lifted_by = $2, lifted_at = now() WHERE dnc_id = $1";

/// Entries shown per contact, latest first.
const ENTRIES_SHOWN: i64 = 200;

/// A contact must not, or must no longer not, be written to.
#[derive(Clone, Debug, Serialize)]
pub(in crate::contacts) struct DoNotContact {
    pub dnc_id: Uuid,
    /// A class of mail, or `*` for all.
    pub class: String,
    pub reason: String,
    pub set_by: Option<String>,
    pub set_at: Timestamp,
    pub lifted_by: Option<String>,
    pub lifted_at: Option<Timestamp>,
}

pub(in crate::contacts) async fn list_dnc(tx: &Tx, contact_id: Uuid) -> Result<Vec<DoNotContact>, DbError> {
    Ok(tx.query(LIST, &[&contact_id, &ENTRIES_SHOWN]).await?.iter().map(read).collect())
}

pub(in crate::contacts) async fn find_in_force(
    tx: &Tx,
    contact_id: Uuid,
    class: &str,
) -> Result<Option<DoNotContact>, DbError> {
    Ok(tx.query_opt(IN_FORCE, &[&contact_id, &class]).await?.as_ref().map(read))
}

pub(in crate::contacts) async fn lock_dnc(
    tx: &Tx,
    contact_id: Uuid,
    dnc_id: Uuid,
) -> Result<Option<DoNotContact>, DbError> {
    Ok(tx.query_opt(LOCK, &[&dnc_id, &contact_id]).await?.as_ref().map(read))
}

pub(in crate::contacts) async fn insert_dnc(
    tx: &Tx,
    contact_id: Uuid,
    dnc_id: Uuid,
    class: &str,
    reason: &str,
) -> Result<(), DbError> {
    tx.execute(INSERT, &[&tx.tenant()?.as_str(), &dnc_id, &contact_id, &class, &reason, &actor(tx)]).await.map(drop)
}

pub(in crate::contacts) async fn lift_dnc(tx: &Tx, dnc_id: Uuid) -> Result<(), DbError> {
    tx.execute(LIFT, &[&dnc_id, &actor(tx)]).await.map(drop)
}

fn read(row: &Row) -> DoNotContact {
    DoNotContact {
        dnc_id: row.get("dnc_id"),
        class: row.get("mail_class"),
        reason: row.get("reason"),
        set_by: row.get("set_by"),
        set_at: row.get("set_at"),
        lifted_by: row.get("lifted_by"),
        lifted_at: row.get("lifted_at"),
    }
}
