//! Who works on an object.

use jiff::Timestamp;
use onceward::{DbError, Row, Tx};
use serde::Serialize;

/// Serialises changes to the assignments of one object, which has one owner.
const LOCK: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended('crm assignments:' || $1 || ' ' || $2 || ' ' || $3, 0))";
const FIND: &str = "
    SELECT object_type, object_id, user_id, duty, created_at
    FROM crm.assignment
    WHERE object_type = $1 AND object_id = $2 AND user_id = $3";
/// The tenant and the user are the beginning of an index.
const LIST_BY_USER: &str = "
    SELECT object_type, object_id, user_id, duty, created_at
    FROM crm.assignment
    WHERE tenant_id = $1 AND user_id = $2 AND (object_type, object_id) > ($3, $4)
    ORDER BY object_type, object_id
    LIMIT $5";
const LIST_BY_OBJECT: &str = "
    SELECT object_type, object_id, user_id, duty, created_at
    FROM crm.assignment
    WHERE object_type = $1 AND object_id = $2
    ORDER BY user_id
    LIMIT $3";
const PUT: &str = "
    INSERT INTO crm.assignment (tenant_id, object_type, object_id, user_id, duty)
    VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (object_type, object_id, user_id, tenant_id) DO UPDATE SET duty = excluded.duty";
const DEMOTE_OWNER: &str = "
    UPDATE crm.assignment
    SET duty = 'assignee'
    WHERE object_type = $1 AND object_id = $2 AND duty = 'owner' AND user_id <> $3
    RETURNING user_id";
const DELETE: &str = "DELETE FROM crm.assignment WHERE object_type = $1 AND object_id = $2 AND user_id = $3";

/// Users listed per object.
const MAX_USERS: i64 = 200;

/// A user's duty for an object.
#[derive(Clone, Debug, Serialize)]
pub(in crate::contacts) struct Assignment {
    pub object_type: String,
    pub object_id: String,
    pub user_id: String,
    pub duty: String,
    pub created_at: Timestamp,
}

/// Locks the assignments of an object until the transaction ends.
pub(in crate::contacts) async fn lock_assignments(
    tx: &Tx,
    (object_type, object_id): (&str, &str),
) -> Result<(), DbError> {
    tx.execute(LOCK, &[&tx.tenant()?.as_str(), &object_type, &object_id]).await.map(drop)
}

pub(in crate::contacts) async fn find_assignment(
    tx: &Tx,
    (object_type, object_id): (&str, &str),
    user_id: &str,
) -> Result<Option<Assignment>, DbError> {
    Ok(tx.query_opt(FIND, &[&object_type, &object_id, &user_id]).await?.as_ref().map(read))
}

/// Returns the assignments of a user after an object, or of an object if no user is given.
pub(in crate::contacts) async fn list_assignments(
    tx: &Tx,
    user_id: Option<&str>,
    (object_type, object_id): (&str, &str),
    limit: i64,
) -> Result<Vec<Assignment>, DbError> {
    let rows = match user_id {
        Some(user_id) => {
            tx.query(LIST_BY_USER, &[&tx.tenant()?.as_str(), &user_id, &object_type, &object_id, &limit]).await?
        }
        None => tx.query(LIST_BY_OBJECT, &[&object_type, &object_id, &MAX_USERS]).await?,
    };
    Ok(rows.iter().map(read).collect())
}

/// Makes the owner of an object an assignee, unless it is `user_id`. Returns the previous owner.
pub(in crate::contacts) async fn demote_owner(
    tx: &Tx,
    (object_type, object_id): (&str, &str),
    user_id: &str,
) -> Result<Option<String>, DbError> {
    Ok(tx.query_opt(DEMOTE_OWNER, &[&object_type, &object_id, &user_id]).await?.map(|row| row.get(0)))
}

pub(in crate::contacts) async fn put_assignment(
    tx: &Tx,
    (object_type, object_id): (&str, &str),
    user_id: &str,
    duty: &str,
) -> Result<(), DbError> {
    tx.execute(PUT, &[&tx.tenant()?.as_str(), &object_type, &object_id, &user_id, &duty]).await.map(drop)
}

pub(in crate::contacts) async fn delete_assignment(
    tx: &Tx,
    (object_type, object_id): (&str, &str),
    user_id: &str,
) -> Result<(), DbError> {
    tx.execute(DELETE, &[&object_type, &object_id, &user_id]).await.map(drop)
}

fn read(row: &Row) -> Assignment {
    Assignment {
        object_type: row.get("object_type"),
        object_id: row.get("object_id"),
        user_id: row.get("user_id"),
        duty: row.get("duty"),
        created_at: row.get("created_at"),
    }
}
