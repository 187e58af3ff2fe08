//! All SQL of stored responses.

use super::ScopedKey;
use onceward_db::{Db, DbError, Tx};

/// A response as it was given the first time.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) status: u16,
    pub(crate) content_type: Option<String>,
    pub(crate) location: Option<String>,
    pub(crate) body: Vec<u8>,
}

/// What is known of a key.
#[derive(Debug)]
pub(crate) enum Claim {
    /// Nobody used it: it is ours until the transaction ends.
    Free,
    /// Another request works under it.
    Running,
    /// It was done, for this body.
    Done(Stored),
    /// It was done, for another body.
    OtherBody,
}

/// Takes the key for this transaction, or tells why not.
pub(crate) async fn claim(tx: &Tx, key: &ScopedKey) -> Result<Claim, DbError> {
    let row = tx
        .query_one(
            "SELECT state, request_fingerprint, status, content_type, location, body
             FROM onceward_web.claim_key($1, $2)",
            &[&key.lock(), &&key.scope_digest[..]],
        )
        .await?;
    Ok(match row.get::<_, &str>(0) {
        "free" => Claim::Free,
        "running" => Claim::Running,
        _ if row.get::<_, &[u8]>(1) != key.request_fingerprint => Claim::OtherBody,
        _ => Claim::Done(Stored {
            status: row.get::<_, i16>(2).unsigned_abs(),
            content_type: row.get(3),
            location: row.get(4),
            body: row.get(5),
        }),
    })
}

/// Keeps the response, to be committed with the command's effects. An expired row of the same key is replaced.
/// False if a live one is there, which the lock rules out unless it was lost with its connection.
pub(crate) async fn save(tx: &Tx, key: &ScopedKey, response: &Stored, ttl_s: u64) -> Result<bool, DbError> {
    let tenant = tx.tenant()?.as_str().to_owned();
    let status = i16::try_from(response.status).unwrap_or(500);
    let ttl_s = i32::try_from(ttl_s).unwrap_or(i32::MAX);
    let written = tx
        .execute(
            "INSERT INTO onceward_web.idempotency_key AS k
                 (tenant_id, scope_digest, request_fingerprint, status, content_type, location, body, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp() + make_interval(secs => $8::int))
             ON CONFLICT (tenant_id, scope_digest) DO UPDATE
             SET request_fingerprint = excluded.request_fingerprint, status = excluded.status,
                 content_type = excluded.content_type, location = excluded.location, body = excluded.body,
                 created_at = excluded.created_at, expires_at = excluded.expires_at
             WHERE k.expires_at <= clock_timestamp()",
            &[
                &tenant,
                &&key.scope_digest[..],
                &&key.request_fingerprint[..],
                &status,
                &response.content_type,
                &response.location,
                &response.body,
                &ttl_s,
            ],
        )
        .await?;
    Ok(written == 1)
}

/// Removes up to `limit` expired keys of all tenants; gives how many it removed. The engine calls it now and then.
pub async fn forget_expired(db: &Db, limit: u32) -> Result<u64, DbError> {
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let rows = db.connection().await?.query("SELECT onceward_web.forget_expired($1)", &[&limit]).await?;
    Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0).unsigned_abs()))
}
