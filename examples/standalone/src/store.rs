//! All SQL of the service. Row-level security adds the tenant to every condition.

use onceward::prelude::*;
use serde::Serialize;
use uuid::Uuid;

const INSERT: &str = "INSERT INTO signups.account (tenant_id, account_id, name) VALUES ($1, $2, $3)";
const FIND: &str = "SELECT name FROM signups.account WHERE account_id = $1";

pub(crate) async fn insert_account(tx: &Tx, id: Uuid, name: &str) -> Result<u64, DbError> {
    tx.execute(INSERT, &[&tx.tenant()?.as_str(), &id, &name]).await
}

pub(crate) async fn find_account(tx: &Tx, id: Uuid) -> Result<Option<SignupAccount>, DbError> {
    let row = tx.query_opt(FIND, &[&id]).await?;
    Ok(row.map(|row| SignupAccount { account_id: id, name: row.get(0) }))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignupAccount {
    account_id: Uuid,
    name: String,
}
