//! What messages are signed with.

use crate::vault::Sealed;
use onceward::{DbError, TenantId, Tx};
use serde_json::Value;
use uuid::Uuid;

/// More than this many are not in force at a time: each costs a signature in every message.
const IN_FORCE_AT_MOST: i32 = 5;

/// Those before it stay in force for a while, but not longer than they would have.
const EXPIRE: &str = "
    UPDATE webhooks.secret
    SET expires_at = least(coalesce(expires_at, 'infinity'), now() + $2::bigint * interval '1 second') WHERE endpoint_id = $1";
const FORGET: &str = "
    DELETE FROM webhooks.secret s WHERE s.endpoint_id = $1 AND (s.expires_at <= now()
        OR s.number <= (SELECT max(number) FROM webhooks.secret WHERE endpoint_id = $1) + 1 - $2)";
const ADD: &str = "
    INSERT INTO webhooks.secret (tenant_id, endpoint_id, number, key_id, secret)
    SELECT $1, $2, coalesce(max(number), 0) + 1, $3, $4 FROM webhooks.secret WHERE endpoint_id = $2";
const UNDER: &str = "SELECT tenant_id, endpoint_id, number, key_id, secret FROM webhooks.secrets_under($1, $2)";
const RESEAL: &str = "SELECT webhooks.reseal($1, $2, $3, $4, $5)";
const SHOW: &str = "
    SELECT coalesce(jsonb_agg(jsonb_build_object('number', number, 'created_at', created_at, 'expires_at', expires_at)
        ORDER BY number DESC), '[]')
    FROM webhooks.secret WHERE endpoint_id = $1 AND (expires_at IS NULL OR expires_at > now())";

/// A secret as it lies in the table.
pub(crate) struct Kept {
    pub tenant: TenantId,
    pub endpoint_id: Uuid,
    number: i32,
    pub sealed: Sealed,
}

/// Makes `secret` the one in force. Those before it stay good for `overlap_s`.
pub(crate) async fn add_secret(tx: &Tx, endpoint_id: Uuid, secret: &Sealed, overlap_s: i64) -> Result<(), DbError> {
    tx.execute(EXPIRE, &[&endpoint_id, &overlap_s]).await?;
    tx.execute(FORGET, &[&endpoint_id, &IN_FORCE_AT_MOST]).await?;
    tx.execute(ADD, &[&tx.tenant()?.as_str(), &endpoint_id, &secret.key_id, &secret.bytes]).await.map(drop)
}

/// The numbers and times of those in force, without the secrets.
pub(crate) async fn show_secrets(tx: &Tx, endpoint_id: Uuid) -> Result<Value, DbError> {
    Ok(tx.query_one(SHOW, &[&endpoint_id]).await?.get(0))
}

/// Some secrets of all tenants that are sealed with one of these keys, locked.
pub(crate) async fn secrets_under(tx: &Tx, key_ids: &[&str], most: i32) -> Result<Vec<Kept>, DbError> {
    let rows = tx.query(UNDER, &[&key_ids, &most]).await?;
    let kept = rows.iter().filter_map(|row| {
        Some(Kept {
            tenant: TenantId::new(row.get::<_, &str>("tenant_id")).ok()?,
            endpoint_id: row.get("endpoint_id"),
            number: row.get("number"),
            sealed: Sealed { key_id: row.get("key_id"), bytes: row.get("secret") },
        })
    });
    Ok(kept.collect())
}

/// Replaces what `kept` is sealed as.
pub(crate) async fn reseal(tx: &Tx, kept: &Kept, sealed: &Sealed) -> Result<(), DbError> {
    let Kept { tenant, endpoint_id, number, .. } = kept;
    tx.execute(RESEAL, &[&tenant.as_str(), endpoint_id, number, &sealed.key_id, &sealed.bytes]).await.map(drop)
}
