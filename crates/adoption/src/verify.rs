//! Compares old and new: counts, sums, and every row that differs.

use crate::{AdoptionError, Shape, legacy, steps::REFERENCES, store};
use onceward::DbConfig;
use serde::Serialize;

/// Of each kind, so many are named; the counts tell of the others.
const NAMED: i64 = 100;

/// Something that is not as it has to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// In which table.
    pub table: String,
    /// Which row, if it is one.
    pub id: Option<i64>,
    /// What it is.
    pub what: String,
}

/// What was compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Counts and sums, for people.
    pub told: Vec<String>,
    /// What differs.
    pub differences: Vec<Difference>,
    /// What is listed as not brought over.
    pub findings: i64,
}

impl Verified {
    /// Everything is brought over.
    pub fn is_complete(&self) -> bool {
        self.differences.is_empty() && self.findings == 0
    }

    fn differ(&mut self, table: &str, what: String) {
        self.differences.push(Difference { table: table.to_owned(), id: None, what });
    }

    fn rows(&mut self, table: &str, rows: Vec<(i64, String)>) {
        let row = |(id, what)| Difference { table: table.to_owned(), id: Some(id), what };
        self.differences.extend(rows.into_iter().map(row));
    }
}

/// Compares everything as it is at one moment; the old program may go on meanwhile.
pub async fn verify(config: &DbConfig) -> Result<Verified, AdoptionError> {
    let mut client = legacy::connect(config).await?;
    let not_begun = || AdoptionError::Refused("nothing is adopted here yet: `onceward adopt run` does it".to_owned());
    let Shape { schema, tenant, exchange } = Shape::kept(&client).await?.ok_or_else(not_begun)?;
    let mut verified = Verified { findings: store::count_findings(&client).await?, ..Verified::default() };
    let tx = store::snapshot(&mut client).await?;
    let (by_old_name, by_new_name, foreign) = store::borrower_counts(&tx, &schema, tenant.as_str()).await?;
    verified.told.push(format!("borrowers: {by_old_name} rows by the old name, {by_new_name} by the new one"));
    if by_old_name != by_new_name {
        verified.differ("borrowers", format!("{by_old_name} rows by the old name, {by_new_name} by the new one"));
    }
    if foreign > 0 {
        verified.differ("borrower_entities", format!("{foreign} rows belong to another tenant than {tenant}"));
    }
    for table in ["loans", "payments"] {
        let sums = store::amounts(&tx, &schema, table).await?;
        let store::Amounts { old, new, listed, old_sum, new_sum } = sums;
        verified.told.push(format!(
            "{table}: {old} amounts, {new} exact and {listed} listed; the exact ones sum up to {old_sum} before and {new_sum} after"
        ));
        if old != new + listed {
            verified.differ(table, format!("{old} amounts are {new} exact and {listed} listed ones"));
        }
        if old_sum != new_sum {
            verified.differ(table, format!("the exact amounts sum up to {old_sum} before and {new_sum} after"));
        }
        verified.rows(table, store::wrong_amounts(&tx, &schema, table, NAMED).await?);
    }
    for (table, column, target) in REFERENCES {
        verified.rows(table, store::unlisted_missing(&tx, &schema, (table, column, target), NAMED).await?);
    }
    if exchange.is_some() {
        let waiting = store::waiting_messages(&tx, &schema).await?;
        verified.told.push(format!("outbox: {waiting} messages wait"));
        if waiting > 0 {
            verified.differ("outbox", format!("{waiting} messages are not published and not listed"));
        }
    }
    if store::has_brought(&tx).await? {
        verified.rows("loans", store::wrong_loans(&tx, &schema, tenant.as_str(), NAMED).await?);
    }
    tx.commit().await?;
    Ok(verified)
}
