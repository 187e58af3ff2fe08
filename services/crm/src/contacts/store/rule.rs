//! What jurisdictions demand for classes of mail.

use jiff::Timestamp;
use onceward::{DbError, Row, Tx};
use serde::Serialize;

const LIST: &str = "
    SELECT jurisdiction, mail_class, demand, reason, updated_at
    FROM crm.jurisdiction_rule
    WHERE tenant_id = $1
    ORDER BY jurisdiction, mail_class
    LIMIT $2";
const LOCK: &str = "
    SELECT jurisdiction, mail_class, demand, reason, updated_at
    FROM crm.jurisdiction_rule
    WHERE jurisdiction = $1 AND mail_class = $2
    FOR UPDATE";
const PUT: &str = "
    INSERT INTO crm.jurisdiction_rule (tenant_id, jurisdiction, mail_class, demand, reason)
    VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (jurisdiction, mail_class, tenant_id) DO UPDATE
        SET demand = excluded.demand, reason = excluded.reason, updated_at = now()";
const DELETE: &str = "DELETE FROM crm.jurisdiction_rule WHERE jurisdiction = $1 AND mail_class = $2";

/// More rules than jurisdictions times classes.
const MAX_RULES: i64 = 5_000;

/// What a jurisdiction demands for a class of mail.
#[derive(Clone, Debug, Serialize)]
pub(in crate::contacts) struct JurisdictionRule {
    pub jurisdiction: String,
    pub class: String,
    pub demand: String,
    pub reason: String,
    pub updated_at: Timestamp,
}

pub(in crate::contacts) async fn list_rules(tx: &Tx) -> Result<Vec<JurisdictionRule>, DbError> {
    Ok(tx.query(LIST, &[&tx.tenant()?.as_str(), &MAX_RULES]).await?.iter().map(read).collect())
}

/// Returns a rule, locked until the transaction ends.
pub(in crate::contacts) async fn find_rule(
    tx: &Tx,
    jurisdiction: &str,
    class: &str,
) -> Result<Option<JurisdictionRule>, DbError> {
    Ok(tx.query_opt(LOCK, &[&jurisdiction, &class]).await?.as_ref().map(read))
}

pub(in crate::contacts) async fn put_rule(
    tx: &Tx,
    (jurisdiction, class): (&str, &str),
    demand: &str,
    reason: &str,
) -> Result<(), DbError> {
    tx.execute(PUT, &[&tx.tenant()?.as_str(), &jurisdiction, &class, &demand, &reason]).await.map(drop)
}

pub(in crate::contacts) async fn delete_rule(tx: &Tx, jurisdiction: &str, class: &str) -> Result<(), DbError> {
    tx.execute(DELETE, &[&jurisdiction, &class]).await.map(drop)
}

fn read(row: &Row) -> JurisdictionRule {
    JurisdictionRule {
        jurisdiction: row.get("jurisdiction"),
        class: row.get("mail_class"),
        demand: row.get("demand"),
        reason: row.get("reason"),
        updated_at: row.get("updated_at"),
    }
}
