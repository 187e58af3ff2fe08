//! A legacy database beside the platform's own schemas.

use onceward::{Platform, TenantId};
use onceward_adoption::{AdoptionError, AdoptionOptions, LegacyMapping, run};
use onceward_lending::{Settings, service};
use onceward_testkit::{TestDb, TestPlatform};
use std::time::Duration;
use tokio_postgres::{
    Client,
    types::{FromSql, ToSql},
};

pub const TENANT: &str = "acme";

pub struct LegacyFixture {
    pub platform: TestPlatform,
    /// A connection as the old program has it.
    pub client: Client,
}

impl LegacyFixture {
    pub async fn new() -> Self {
        let platform = Platform::assemble(vec![service(Settings::default())]).expect("lending is a valid platform");
        let database = TestDb::for_platform(&platform).await;
        let client = old_program(&database).await;
        client.batch_execute(include_str!("legacy.sql")).await.expect("the legacy tables are created");
        Self { platform: TestPlatform::on(database, platform), client }
    }

    pub async fn run(&self) -> i64 {
        self.try_run(&without_pauses()).await.expect("the adoption succeeds")
    }

    pub async fn try_run(&self, options: &AdoptionOptions) -> Result<i64, AdoptionError> {
        run(&self.platform.database().config(), &mapping(), options, |_| {}).await
    }

    pub async fn execute(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    /// Returns the first column of the first row.
    pub async fn query_value<T: for<'a> FromSql<'a>>(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> T {
        self.client.query_one(sql, params).await.unwrap_or_else(|error| panic!("{sql}: {error:?}")).get(0)
    }

    /// Returns table, row, column, value and reason of all findings.
    pub async fn findings(&self) -> Vec<String> {
        let sql = "SELECT concat_ws(' ', table_name, row_id, column_name, value || ':', reason) FROM adoption.finding
                   ORDER BY table_name, row_id, column_name";
        self.client.query(sql, &[]).await.expect("findings can be read").iter().map(|row| row.get(0)).collect()
    }
}

/// Connects as the old program does: its statements name no schema, and the search path has only one.
pub async fn old_program(database: &TestDb) -> Client {
    let client = database.owner().await;
    client.batch_execute("SET search_path = public").await.expect("a setting");
    client
}

pub fn mapping() -> LegacyMapping {
    LegacyMapping::new("public", TenantId::new(TENANT).expect("a tenant"), Some("ls.events")).expect("a mapping")
}

/// Returns options without pauses between batches.
pub fn without_pauses() -> AdoptionOptions {
    AdoptionOptions { pause: Duration::ZERO, ..AdoptionOptions::default() }
}

/// The rule for amounts, implemented independently of the database: Rust prints the shortest decimal of a float, and it
/// must have at most two decimals.
pub fn expected_minor(amount: f64, below_zero: bool) -> Option<i64> {
    if !amount.is_finite() || amount.abs() >= 2_f64.powi(46) || (amount < 0.0 && !below_zero) {
        return None;
    }
    let text = format!("{amount}");
    let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
    (decimals.len() <= 2).then(|| format!("{whole}{decimals:0<2}").parse().expect("a number that fits"))
}
