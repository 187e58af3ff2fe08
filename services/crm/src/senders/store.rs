//! The SQL of senders and DKIM keys. Row-level security restricts every statement to the tenant.

use jiff::Timestamp;
use onceward::{DbError, Row, Tx, secrets::SealedBytes};

const DEFAULT: &str = "
    SELECT domain, from_address, from_name, reply_to, is_default, updated_at
    FROM crm.sender
    WHERE tenant_id = $1 AND is_default";
const FIND: &str = "
    SELECT domain, from_address, from_name, reply_to, is_default, updated_at
    FROM crm.sender
    WHERE domain = $1";
const LIST: &str = "
    SELECT domain, from_address, from_name, reply_to, is_default, updated_at
    FROM crm.sender
    WHERE tenant_id = $1
    ORDER BY domain
    LIMIT $2";
/// Serialises changes to a tenant's senders: there is one default, and their number is limited. The next statement sees
/// what was committed before.
const LOCK_SENDERS: &str = "SELECT pg_advisory_xact_lock(hashtextextended('crm senders:' || $1, 0))";
const COUNT: &str = "SELECT count(*) FROM crm.sender WHERE tenant_id = $1";
const CLEAR_DEFAULT: &str =
    "UPDATE crm.sender SET is_default = false WHERE tenant_id = $1 AND is_default AND domain <> $2";
const UPSERT: &str = "
    INSERT INTO crm.sender (tenant_id, domain, from_address, from_name, reply_to, is_default)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (domain, tenant_id) DO UPDATE
        SET from_address = excluded.from_address, from_name = excluded.from_name, reply_to = excluded.reply_to,
            is_default = excluded.is_default, updated_at = now()";
const KEYS: &str = "
    SELECT domain, selector, algorithm, record, is_active, created_at
    FROM crm.dkim_key
    WHERE domain = $1
    ORDER BY selector
    LIMIT $2";
const FIND_KEY: &str = "
    SELECT domain, selector, algorithm, record, is_active, created_at
    FROM crm.dkim_key
    WHERE domain = $1 AND selector = $2";
const ACTIVE_KEYS: &str = "
    SELECT selector, root_id, sealed
    FROM crm.dkim_key
    WHERE domain = $1 AND is_active
    ORDER BY algorithm DESC";
/// Locks the sender, so that the number of its keys does not change.
const LOCK_KEYS: &str = "SELECT domain FROM crm.sender WHERE domain = $1 FOR NO KEY UPDATE";
const INSERT_KEY: &str = "
    INSERT INTO crm.dkim_key (tenant_id, domain, selector, algorithm, root_id, sealed, record)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
const DEACTIVATE: &str = "
    UPDATE crm.dkim_key
    SET is_active = false
    WHERE domain = $1 AND algorithm = $2 AND is_active
    RETURNING selector";
const ACTIVATE: &str = "UPDATE crm.dkim_key SET is_active = true WHERE domain = $1 AND selector = $2";
const DELETE_KEY: &str = "DELETE FROM crm.dkim_key WHERE domain = $1 AND selector = $2";

/// Senders that a tenant may have.
pub(super) const MAX_SENDERS: i64 = 100;
/// Keys that a domain may have.
pub(super) const MAX_KEYS: usize = 10;

/// A sender as it is stored.
#[derive(Clone, Debug)]
pub(super) struct SenderRow {
    pub domain: String,
    pub from_address: String,
    pub from_name: Option<String>,
    pub reply_to: Option<String>,
    pub is_default: bool,
    pub updated_at: Timestamp,
}

/// What a tenant decides about a sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SenderValues {
    pub from_address: String,
    pub from_name: Option<String>,
    pub reply_to: Option<String>,
    pub is_default: bool,
}

/// A DKIM key without its secret.
#[derive(Clone, Debug)]
pub(super) struct DkimKeyRow {
    pub domain: String,
    pub selector: String,
    pub algorithm: String,
    pub record: String,
    pub is_active: bool,
    pub created_at: Timestamp,
}

/// A key that signs.
pub(super) struct ActiveDkimKey {
    pub selector: String,
    pub sealed: SealedBytes,
}

/// A key to be stored.
pub(super) struct NewDkimKey<'k> {
    pub domain: &'k str,
    pub selector: &'k str,
    pub algorithm: &'k str,
    pub sealed: &'k SealedBytes,
    pub record: &'k str,
}

pub(super) async fn default_sender(tx: &Tx) -> Result<Option<SenderRow>, DbError> {
    Ok(tx.query_opt(DEFAULT, &[&tx.tenant()?.as_str()]).await?.as_ref().map(read_sender))
}

pub(super) async fn find_sender(tx: &Tx, domain: &str) -> Result<Option<SenderRow>, DbError> {
    Ok(tx.query_opt(FIND, &[&domain]).await?.as_ref().map(read_sender))
}

pub(super) async fn list_senders(tx: &Tx) -> Result<Vec<SenderRow>, DbError> {
    Ok(tx.query(LIST, &[&tx.tenant()?.as_str(), &MAX_SENDERS]).await?.iter().map(read_sender).collect())
}

/// Locks the tenant's senders until the transaction ends, and returns their number.
pub(super) async fn lock_senders(tx: &Tx) -> Result<i64, DbError> {
    let tenant = tx.tenant()?.as_str();
    tx.execute(LOCK_SENDERS, &[&tenant]).await?;
    Ok(tx.query_one(COUNT, &[&tenant]).await?.get(0))
}

/// Stores a sender. If it is the default, no other one is.
pub(super) async fn put_sender(tx: &Tx, domain: &str, values: &SenderValues) -> Result<(), DbError> {
    let tenant = tx.tenant()?.as_str();
    let SenderValues { from_address, from_name, reply_to, is_default } = values;
    if *is_default {
        tx.execute(CLEAR_DEFAULT, &[&tenant, &domain]).await?;
    }
    tx.execute(UPSERT, &[&tenant, &domain, from_address, from_name, reply_to, is_default]).await.map(drop)
}

pub(super) async fn list_keys(tx: &Tx, domain: &str) -> Result<Vec<DkimKeyRow>, DbError> {
    let limit = i64::try_from(MAX_KEYS).unwrap_or(i64::MAX);
    Ok(tx.query(KEYS, &[&domain, &limit]).await?.iter().map(read_key).collect())
}

pub(super) async fn find_key(tx: &Tx, domain: &str, selector: &str) -> Result<Option<DkimKeyRow>, DbError> {
    Ok(tx.query_opt(FIND_KEY, &[&domain, &selector]).await?.as_ref().map(read_key))
}

/// Returns the keys that sign, RSA first: receivers that know one algorithm only verify that one.
pub(super) async fn active_keys(tx: &Tx, domain: &str) -> Result<Vec<ActiveDkimKey>, DbError> {
    let rows = tx.query(ACTIVE_KEYS, &[&domain]).await?;
    let keys = rows.iter().map(|row| ActiveDkimKey {
        selector: row.get(0),
        sealed: SealedBytes { key_id: row.get(1), bytes: row.get(2) },
    });
    Ok(keys.collect())
}

/// Locks the keys of a domain. Returns `false` if it has no sender.
pub(super) async fn lock_keys(tx: &Tx, domain: &str) -> Result<bool, DbError> {
    Ok(tx.query_opt(LOCK_KEYS, &[&domain]).await?.is_some())
}

pub(super) async fn insert_key(tx: &Tx, new: &NewDkimKey<'_>) -> Result<(), DbError> {
    let NewDkimKey { domain, selector, algorithm, sealed, record } = new;
    let tenant = tx.tenant()?.as_str();
    tx.execute(INSERT_KEY, &[&tenant, domain, selector, algorithm, &sealed.key_id, &sealed.bytes, record])
        .await
        .map(drop)
}

/// Makes a key sign instead of the one with the same algorithm, whose selector it returns.
pub(super) async fn activate_key(tx: &Tx, key: &DkimKeyRow) -> Result<Option<String>, DbError> {
    let previous = tx.query_opt(DEACTIVATE, &[&key.domain, &key.algorithm]).await?;
    tx.execute(ACTIVATE, &[&key.domain, &key.selector]).await?;
    Ok(previous.map(|row| row.get(0)))
}

pub(super) async fn delete_key(tx: &Tx, domain: &str, selector: &str) -> Result<(), DbError> {
    tx.execute(DELETE_KEY, &[&domain, &selector]).await.map(drop)
}

fn read_sender(row: &Row) -> SenderRow {
    SenderRow {
        domain: row.get("domain"),
        from_address: row.get("from_address"),
        from_name: row.get("from_name"),
        reply_to: row.get("reply_to"),
        is_default: row.get("is_default"),
        updated_at: row.get("updated_at"),
    }
}

fn read_key(row: &Row) -> DkimKeyRow {
    DkimKeyRow {
        domain: row.get("domain"),
        selector: row.get("selector"),
        algorithm: row.get("algorithm"),
        record: row.get("record"),
        is_active: row.get("is_active"),
        created_at: row.get("created_at"),
    }
}
