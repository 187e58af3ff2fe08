//! The start-up check that every column the code relies on exists.

use crate::{Db, DbError};

/// A table and the columns the code reads or writes.
#[derive(Clone, Copy, Debug)]
pub struct RequiredTable {
    /// `schema.table`.
    pub table: &'static str,
    /// Column names.
    pub columns: &'static [&'static str],
}

/// Returns every required column that is missing, as `schema.table.column`.
pub async fn missing(db: &Db, required: &[RequiredTable]) -> Result<Vec<String>, DbError> {
    let tables: Vec<&str> = required.iter().flat_map(|r| r.columns.iter().map(|_| r.table)).collect();
    let columns: Vec<&str> = required.iter().flat_map(|r| r.columns.iter().copied()).collect();
    let rows = db
        .connection()
        .await?
        .query(
            "SELECT r.t || '.' || r.c
             FROM unnest($1::text[], $2::text[]) AS r(t, c)
             WHERE NOT EXISTS (
                 SELECT FROM pg_attribute a
                 WHERE a.attrelid = to_regclass(r.t) AND a.attname = r.c AND NOT a.attisdropped AND a.attnum > 0)
             ORDER BY 1",
            &[&tables, &columns],
        )
        .await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}
