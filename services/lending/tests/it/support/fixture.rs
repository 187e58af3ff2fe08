//! The lending service inside the test's own process.

use super::ApiClient;
use jiff::{civil::Date, tz::TimeZone};
use onceward::{message_log::stats::queue_stats, outbox};
use onceward_lending::{Settings, loans::events::LoanAccrue, service};
use onceward_testkit::{TestPlatform, eventually};
use std::time::Duration;
use tokio_postgres::{Client, types::ToSql};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The service on its own database, reachable over HTTP.
pub struct LendingFixture {
    pub platform: TestPlatform,
    /// A connection that sees every tenant.
    pub owner: Client,
    pub(super) http: reqwest::Client,
    pub(super) url: String,
}

impl LendingFixture {
    /// Serves requests and handles messages, with PostgreSQL as the bus.
    pub async fn start() -> Self {
        Self::start_on(None).await
    }

    /// Does the same on the bus at `url`.
    pub async fn start_on(url: Option<&str>) -> Self {
        let mut fixture = Self::without_consumers(Settings::default(), url).await;
        fixture.platform.run_consumers();
        if url.is_some() {
            let broker = fixture.platform.broker();
            eventually("the topology is declared", || async { broker.check().await.ok().filter(Vec::is_empty) }).await;
            broker.close().await;
        }
        fixture
    }

    /// Serves requests and accepts payments from the mock gateway; messages wait until consumers are started.
    pub async fn without_consumers(settings: Settings, bus: Option<&str>) -> Self {
        Self::with_settings(Settings { mock_provider: true, ..settings }, bus).await
    }

    /// Does the same with exactly these settings.
    pub async fn with_settings(settings: Settings, bus: Option<&str>) -> Self {
        let mut platform = TestPlatform::on_bus(vec![service(settings)], bus).await;
        platform.run_relay();
        let url = platform.serve_http().await;
        let owner = platform.database().owner().await;
        let http = reqwest::Client::builder().timeout(REQUEST_TIMEOUT).build().expect("a client can be built");
        Self { platform, owner, http, url }
    }

    /// Returns the API client of a user of `tenant`.
    pub fn client(&self, tenant: &str) -> ApiClient<'_> {
        ApiClient::new(self, tenant, "tester")
    }

    /// Returns the first column of the first row, as the owner sees it.
    pub async fn query_value<T>(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> T
    where
        T: for<'a> tokio_postgres::types::FromSql<'a>,
    {
        self.owner.query_one(sql, params).await.expect("the query returns a row").get(0)
    }

    /// Counts the rows of `table`, of all tenants.
    pub async fn count(&self, table: &str) -> i64 {
        self.query_value(&format!("SELECT count(*) FROM {table}"), &[]).await
    }

    /// Counts the audit entries of this kind that `tenant` has.
    pub async fn count_audit_entries(&self, tenant: &str, event_type: &str) -> i64 {
        let sql = "SELECT count(*) FROM audit.entry WHERE tenant_id = $1 AND event_type = $2";
        self.query_value(sql, &[&tenant, &event_type]).await
    }

    /// Publishes the daily tick of `day` for `tenant`.
    pub async fn tick(&self, tenant: &str, day: Date) {
        let scheduled_for = day.to_zoned(TimeZone::UTC).expect("a day has a beginning").timestamp();
        let tick = LoanAccrue { schedule: "lending-accrual".into(), scheduled_for, part: 0 };
        let mut tx = self.platform.db().begin(self.platform.scope(tenant)).await.expect("a transaction");
        outbox::publish(&mut tx, &tick).await.expect("the tick fits its contract");
        tx.commit().await.expect("the commit succeeds");
    }

    /// Publishes the daily tick and waits until every loan of `tenant` is processed.
    pub async fn run_daily_work(&self, tenant: &str, day: Date) {
        self.tick(tenant, day).await;
        let sql = "SELECT count(*) FROM lending.loan WHERE tenant_id = $1 AND serviced_to < $2
                   AND status IN ('active', 'in_modification', 'bankruptcy')";
        eventually("every loan is serviced", || async {
            (self.query_value::<i64>(sql, &[&tenant, &day]).await == 0).then_some(())
        })
        .await;
    }

    /// Waits until `queue` is empty, including deferred messages.
    pub async fn wait_until_drained(&self, queue: &str) {
        eventually("the queue is empty", || async {
            let all = queue_stats(self.platform.db()).await.expect("the queues can be counted");
            let found = all.into_iter().find(|found| found.queue == queue).expect("the queue is declared");
            (found.depth + found.deferred == 0).then_some(())
        })
        .await;
    }
}
