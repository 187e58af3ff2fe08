//! SQL of the import into lending. Legacy rows are read as the owner; lending's rows are written as the application.

use super::table_name;
use jiff::civil::Date;
use onceward::{DbError, Tx};
use rust_decimal::Decimal;
use serde_json::Value;
use tokio_postgres::{Client, Error};
use uuid::Uuid;

const HAS_LENDING: &str = "SELECT to_regclass('lending.loan') IS NOT NULL";
const PRODUCT: &str = "SELECT version, policy FROM lending.product_policy
    WHERE tenant_id = $1 AND code = $2 ORDER BY version DESC LIMIT 1";
/// Lending already has the borrower if a run was interrupted before recording it in `adoption.brought`.
const INSERT_BORROWER: &str = "INSERT INTO lending.borrower_entities
    (tenant_id, borrower_entity_id, kind, display_name, email, external_ref) VALUES ($1, $2, 'person', $3, $4, $5)
    ON CONFLICT (external_ref, tenant_id) DO NOTHING";
const FIND_BORROWER: &str = "SELECT borrower_entity_id FROM lending.borrower_entities WHERE external_ref = $1";
const RECORD_IMPORTED: &str = "INSERT INTO adoption.brought (table_name, row_id, new_id) VALUES ($1, $2, $3)
    ON CONFLICT (table_name, row_id) DO NOTHING";
const RECORD_FINDING: &str = "INSERT INTO adoption.finding (table_name, row_id, column_name, value, reason)
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT (table_name, row_id, column_name)
    DO UPDATE SET value = excluded.value, reason = excluded.reason";
const CREATE_LOAN: &str =
    "SELECT onceward.enqueue($1, 'ls.commands:tenant.' || $1 || '.loan.create', 'loan.create.v1', $2,
    p_idempotency_key => $3, p_ordering_key => $4, p_correlation_id => $3)";

pub(crate) async fn has_lending(client: &Client) -> Result<bool, Error> {
    Ok(client.query_one(HAS_LENDING, &[]).await?.get(0))
}

/// Returns version and terms of the latest version of a product.
pub(crate) async fn product(client: &Client, tenant: &str, code: &str) -> Result<Option<(i32, Value)>, Error> {
    Ok(client.query_opt(PRODUCT, &[&tenant, &code]).await?.map(|row| (row.get(0), row.get(1))))
}

pub(crate) struct LegacyBorrower {
    pub id: i64,
    pub name: Option<String>,
    pub email: Option<String>,
}

/// Returns the next rows after id `last` that are not imported yet.
pub(crate) async fn borrowers(
    client: &Client,
    schema: &str,
    last: i64,
    limit: i32,
) -> Result<Vec<LegacyBorrower>, Error> {
    let statement = format!(
        "SELECT id::bigint, name::text, email::text FROM {} AS b WHERE id > $1::bigint
         AND NOT EXISTS (SELECT FROM adoption.brought WHERE table_name = 'borrowers' AND row_id = b.id)
         ORDER BY id LIMIT $2",
        table_name(schema, "borrower_entities")
    );
    let rows = client.query(&statement, &[&last, &i64::from(limit)]).await?;
    Ok(rows.iter().map(|row| LegacyBorrower { id: row.get(0), name: row.get(1), email: row.get(2) }).collect())
}

pub(crate) struct LegacyLoan {
    pub id: i64,
    pub amount_minor: Option<i64>,
    pub rate: Option<Decimal>,
    /// The rate as the legacy table shows it, for people.
    pub rate_text: Option<String>,
    pub term: Option<i64>,
    pub status: Option<String>,
    pub start_date: Option<Date>,
    /// The borrower's id in lending.
    pub borrower: Option<Uuid>,
}

/// Returns the next rows after id `last` that are not imported yet.
pub(crate) async fn loans(client: &Client, schema: &str, last: i64, limit: i32) -> Result<Vec<LegacyLoan>, Error> {
    // A Decimal has 28 digits. A float with more than 18 decimals is not a rate that anyone agreed on.
    let statement = format!(
        "SELECT l.id::bigint, l.amount_minor, CASE WHEN abs(l.rate) < 1000 AND scale(adoption.exact(l.rate)) <= 18
             THEN adoption.exact(l.rate) END, l.rate::text, l.term::bigint, l.status::text, l.created_at::date, b.new_id
         FROM {} AS l LEFT JOIN adoption.brought AS b ON b.table_name = 'borrowers' AND b.row_id = l.borrower_id
         WHERE l.id > $1::bigint AND NOT EXISTS (SELECT FROM adoption.brought WHERE table_name = 'loans' AND row_id = l.id)
         ORDER BY l.id LIMIT $2",
        table_name(schema, "loans")
    );
    let rows = client.query(&statement, &[&last, &i64::from(limit)]).await?;
    let read = |row: &tokio_postgres::Row| LegacyLoan {
        id: row.get(0),
        amount_minor: row.get(1),
        rate: row.get(2),
        rate_text: row.get(3),
        term: row.get(4),
        status: row.get(5),
        start_date: row.get(6),
        borrower: row.get(7),
    };
    Ok(rows.iter().map(read).collect())
}

/// Inserts a borrower into lending unless it exists. Returns its id there, and whether it is new.
pub(crate) async fn insert_borrower(
    tx: &Tx,
    name: &str,
    email: Option<&str>,
    external_ref: &str,
) -> Result<(Uuid, bool), DbError> {
    let id = Uuid::now_v7();
    let inserted =
        tx.execute(INSERT_BORROWER, &[&tx.tenant()?.as_str(), &id, &name, &email, &external_ref]).await? == 1;
    match inserted {
        true => Ok((id, true)),
        false => Ok((tx.query_one(FIND_BORROWER, &[&external_ref]).await?.get(0), false)),
    }
}

pub(crate) async fn record_imported(tx: &Tx, table: &str, id: i64, new_id: Uuid) -> Result<(), DbError> {
    tx.execute(RECORD_IMPORTED, &[&table, &id, &new_id]).await.map(drop)
}

pub(crate) async fn record_finding(
    tx: &Tx,
    table: &str,
    id: i64,
    column: &str,
    value: Option<&str>,
    reason: &str,
) -> Result<(), DbError> {
    tx.execute(RECORD_FINDING, &[&table, &id, &column, &value, &reason]).await.map(drop)
}

/// Publishes the command that creates the loan. The idempotency key makes lending run it once.
pub(crate) async fn create_loan(tx: &Tx, payload: &Value, key: &str, loan_id: Uuid) -> Result<(), DbError> {
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&tx.tenant()?.as_str(), payload, &key, &loan_id.to_string()];
    tx.query_one(CREATE_LOAN, &params).await.map(drop)
}
