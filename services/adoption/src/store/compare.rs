//! Compares old and new data in one snapshot.

use super::table_name;
use tokio_postgres::{Client, Error, Transaction};

/// Starts the read-only transaction in which everything is compared.
pub(crate) async fn snapshot(client: &mut Client) -> Result<Transaction<'_>, Error> {
    let level = tokio_postgres::IsolationLevel::RepeatableRead;
    client.build_transaction().isolation_level(level).read_only(true).start().await
}

/// Counts and sums of a table's amounts, old and new.
#[derive(Clone, Debug)]
pub(crate) struct AmountTotals {
    /// Rows with an amount.
    pub old: i64,
    /// Rows with an amount in minor units.
    pub new: i64,
    /// Rows whose amount is listed.
    pub listed: i64,
    /// The sum of the old amounts that have a new one, in minor units, as text because its size is unlimited.
    pub old_sum: String,
    /// The sum of the new amounts.
    pub new_sum: String,
}

pub(crate) async fn amounts(tx: &Transaction<'_>, schema: &str, table: &str) -> Result<AmountTotals, Error> {
    let statement = format!(
        "SELECT count(amount), count(amount_minor),
                (SELECT count(*) FROM adoption.finding WHERE table_name = '{table}' AND column_name = 'amount'),
                trim_scale(coalesce(sum(adoption.exact(amount) * 100) FILTER (WHERE amount_minor IS NOT NULL), 0))::text,
                coalesce(sum(amount_minor), 0)::text
         FROM {}",
        table_name(schema, table)
    );
    let row = tx.query_one(&statement, &[]).await?;
    Ok(AmountTotals { old: row.get(0), new: row.get(1), listed: row.get(2), old_sum: row.get(3), new_sum: row.get(4) })
}

/// Returns rows that are neither exact nor listed, listed without need, or exact but wrong, as (id, description).
pub(crate) async fn wrong_amounts(
    tx: &Transaction<'_>,
    schema: &str,
    table: &str,
    limit: i64,
) -> Result<Vec<(i64, String)>, Error> {
    let statement = format!(
        "SELECT id::bigint, CASE
             WHEN amount_minor IS NOT NULL AND adoption.exact(amount) * 100 IS DISTINCT FROM amount_minor
                 THEN format('amount %s does not equal amount_minor %s', amount, amount_minor)
             WHEN amount IS NOT NULL AND amount_minor IS NULL AND f.row_id IS NULL THEN format('amount %s is neither migrated nor listed', amount)
             WHEN f.row_id IS NOT NULL AND (amount_minor IS NOT NULL OR f.value IS DISTINCT FROM amount::text)
                 THEN format('listed with amount %s, but has %s', f.value, amount)
         END AS wrong
         FROM {} AS r LEFT JOIN adoption.finding AS f ON f.table_name = '{table}' AND f.row_id = r.id AND f.column_name = 'amount'
         WHERE (amount_minor IS NOT NULL AND adoption.exact(amount) * 100 IS DISTINCT FROM amount_minor)
            OR (amount IS NOT NULL AND amount_minor IS NULL AND f.row_id IS NULL)
            OR (f.row_id IS NOT NULL AND (amount_minor IS NOT NULL OR f.value IS DISTINCT FROM amount::text))
         ORDER BY id LIMIT $1",
        table_name(schema, table)
    );
    Ok(tx.query(&statement, &[&limit]).await?.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Returns rows that refer to a missing row and are not listed.
pub(crate) async fn unlisted_missing_references(
    tx: &Transaction<'_>,
    schema: &str,
    (table, column, target): (&str, &str, &str),
    limit: i64,
) -> Result<Vec<(i64, String)>, Error> {
    let (from, to) = (table_name(schema, table), table_name(schema, target));
    let statement = format!(
        "SELECT r.id::bigint, '{column} ' || r.{column} || ' refers to a row that does not exist' FROM {from} AS r
         WHERE r.{column} IS NOT NULL AND NOT EXISTS (SELECT FROM {to} AS t WHERE t.id = r.{column})
           AND NOT EXISTS (SELECT FROM adoption.finding
                           WHERE table_name = '{table}' AND row_id = r.id AND column_name = '{column}')
         ORDER BY r.id LIMIT $1"
    );
    Ok(tx.query(&statement, &[&limit]).await?.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Returns the number of borrowers by the old name, by the new name, and of other tenants.
pub(crate) async fn borrower_counts(
    tx: &Transaction<'_>,
    schema: &str,
    tenant: &str,
) -> Result<(i64, i64, i64), Error> {
    let (view, table) = (table_name(schema, "borrowers"), table_name(schema, "borrower_entities"));
    let statement =
        format!("SELECT (SELECT count(*) FROM {view}), count(*), count(*) FILTER (WHERE tenant_id <> $1) FROM {table}");
    let row = tx.query_one(&statement, &[&tenant]).await?;
    Ok((row.get(0), row.get(1), row.get(2)))
}

/// Returns the number of messages in the legacy outbox that are neither published nor listed.
pub(crate) async fn waiting_messages(tx: &Transaction<'_>, schema: &str) -> Result<i64, Error> {
    let statement = format!(
        "SELECT count(*) FROM {} AS o WHERE published_at IS NULL
         AND NOT EXISTS (SELECT FROM adoption.finding WHERE table_name = 'outbox' AND row_id = o.id)",
        table_name(schema, "outbox")
    );
    Ok(tx.query_one(&statement, &[]).await?.get(0))
}

/// Returns imported loans that lending has not created or has with another principal.
pub(crate) async fn wrong_loans(
    tx: &Transaction<'_>,
    schema: &str,
    tenant: &str,
    limit: i64,
) -> Result<Vec<(i64, String)>, Error> {
    let statement = format!(
        "SELECT b.row_id, CASE
             WHEN n.loan_id IS NOT NULL THEN format('amount_minor %s is principal_minor %s in lending', l.amount_minor, n.principal_minor)
             WHEN s.state = 'refused' THEN 'refused by lending: ' || coalesce(s.detail, '')
             ELSE 'not created by lending yet; check that its consumers are running' END
         FROM adoption.brought AS b JOIN {} AS l ON l.id = b.row_id
         LEFT JOIN lending.loan AS n ON n.tenant_id = $1 AND n.loan_id = b.new_id
         LEFT JOIN lending.command_status AS s ON s.tenant_id = $1 AND s.subject_id = b.new_id AND s.kind = 'loan.create.v1'
         WHERE b.table_name = 'loans' AND n.principal_minor IS DISTINCT FROM l.amount_minor
         ORDER BY b.row_id LIMIT $2",
        table_name(schema, "loans")
    );
    Ok(tx.query(&statement, &[&tenant, &limit]).await?.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Returns whether any loan was imported into lending.
pub(crate) async fn has_imported_loans(tx: &Transaction<'_>) -> Result<bool, Error> {
    Ok(tx.query_one("SELECT EXISTS (SELECT FROM adoption.brought WHERE table_name = 'loans')", &[]).await?.get(0))
}
