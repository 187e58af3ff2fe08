//! Compares old and new data: counts, sums and every row.

use crate::{AdoptionError, LegacyMapping, connection, steps::REFERENCES, store};
use onceward::DbConfig;
use serde::Serialize;

/// The maximum number of rows listed per kind of difference. The counts include the others.
const MAX_LISTED: i64 = 100;

/// A difference between old and new data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DataDifference {
    /// The table.
    pub table: String,
    /// The row, unless the difference concerns the whole table.
    pub id: Option<i64>,
    /// What differs.
    #[serde(rename = "what")]
    pub description: String,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerificationReport {
    /// Counts and sums, one line each, for people.
    #[serde(rename = "told")]
    pub summary: Vec<String>,
    /// All differences.
    pub differences: Vec<DataDifference>,
    /// The number of findings: values that could not be migrated.
    pub findings: i64,
}

impl VerificationReport {
    /// Returns whether everything was migrated: no differences and no findings.
    pub fn is_complete(&self) -> bool {
        self.differences.is_empty() && self.findings == 0
    }

    fn add_table(&mut self, table: &str, description: String) {
        self.differences.push(DataDifference { table: table.to_owned(), id: None, description });
    }

    fn add_rows(&mut self, table: &str, rows: Vec<(i64, String)>) {
        let row = |(id, description)| DataDifference { table: table.to_owned(), id: Some(id), description };
        self.differences.extend(rows.into_iter().map(row));
    }
}

/// Compares all data in one snapshot; the old program may keep writing. Fails if no adoption has been started.
pub async fn verify(config: &DbConfig) -> Result<VerificationReport, AdoptionError> {
    let mut client = connection::connect(config).await?;
    let not_started = || {
        AdoptionError::Refused(
            "no adoption was started on this database; start one with `onceward adopt run`".to_owned(),
        )
    };
    let LegacyMapping { schema, tenant, exchange } = LegacyMapping::load(&client).await?.ok_or_else(not_started)?;
    let mut report =
        VerificationReport { findings: store::count_findings(&client).await?, ..VerificationReport::default() };
    let tx = store::snapshot(&mut client).await?;
    let (by_old_name, by_new_name, foreign) = store::borrower_counts(&tx, &schema, tenant.as_str()).await?;
    report.summary.push(format!("borrowers: {by_old_name} rows by the old name, {by_new_name} by the new name"));
    if by_old_name != by_new_name {
        report.add_table("borrowers", format!("{by_old_name} rows by the old name, {by_new_name} by the new name"));
    }
    if foreign > 0 {
        report.add_table("borrower_entities", format!("{foreign} rows belong to a tenant other than {tenant}"));
    }
    for table in ["loans", "payments"] {
        let sums = store::amounts(&tx, &schema, table).await?;
        let store::AmountTotals { old, new, listed, old_sum, new_sum } = sums;
        report.summary.push(format!(
            "{table}: {old} amounts, {new} exact and {listed} listed; the exact amounts sum to {old_sum} before and {new_sum} after"
        ));
        if old != new + listed {
            report.add_table(table, format!("of {old} amounts, {new} are exact and {listed} are listed"));
        }
        if old_sum != new_sum {
            report.add_table(table, format!("the exact amounts sum to {old_sum} before and {new_sum} after"));
        }
        report.add_rows(table, store::wrong_amounts(&tx, &schema, table, MAX_LISTED).await?);
    }
    for (table, column, target) in REFERENCES {
        report.add_rows(
            table,
            store::unlisted_missing_references(&tx, &schema, (table, column, target), MAX_LISTED).await?,
        );
    }
    if exchange.is_some() {
        let waiting = store::waiting_messages(&tx, &schema).await?;
        report.summary.push(format!("outbox: {waiting} messages are waiting"));
        if waiting > 0 {
            report.add_table("outbox", format!("{waiting} messages are neither published nor listed"));
        }
    }
    if store::has_imported_loans(&tx).await? {
        report.add_rows("loans", store::wrong_loans(&tx, &schema, tenant.as_str(), MAX_LISTED).await?);
    }
    tx.commit().await?;
    Ok(report)
}
