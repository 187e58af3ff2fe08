//! Lending inside the test's own process.

use super::Desk;
use jiff::{civil::Date, tz::TimeZone};
use onceward::{outbox, transport_postgres::stats::queue_stats};
use onceward_lending::{Settings, loans::events::LoanAccrue, service};
use onceward_testkit::{TestPlatform, eventually};
use std::time::Duration;
use tokio_postgres::{Client, types::ToSql};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The service on a database of its own, reachable over HTTP.
pub struct Office {
    pub platform: TestPlatform,
    /// Sees every tenant.
    pub owner: Client,
    pub(super) http: reqwest::Client,
    pub(super) url: String,
}

impl Office {
    /// Serves requests and handles messages, on PostgreSQL as the bus.
    pub async fn open() -> Self {
        Self::open_on(None).await
    }

    /// The same on the bus at `url`.
    pub async fn open_on(url: Option<&str>) -> Self {
        let mut office = Self::without_consumers(Settings::default(), url).await;
        office.platform.run_consumers();
        office
    }

    /// Serves requests; messages wait until consumers are started.
    pub async fn without_consumers(settings: Settings, bus: Option<&str>) -> Self {
        let mut platform = TestPlatform::on_bus(vec![service(settings)], bus).await;
        platform.run_relay();
        let url = platform.serve_http().await;
        let owner = platform.database().owner().await;
        let http = reqwest::Client::builder().timeout(REQUEST_TIMEOUT).build().expect("a client can be built");
        Self { platform, owner, http, url }
    }

    /// Where `tenant` does its business.
    pub fn desk(&self, tenant: &str) -> Desk<'_> {
        Desk::new(self, tenant, "tester")
    }

    /// The first column of the first row, as the owner sees it.
    pub async fn ask<T>(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> T
    where
        T: for<'a> tokio_postgres::types::FromSql<'a>,
    {
        self.owner.query_one(sql, params).await.expect("a query that gives a row").get(0)
    }

    /// How many rows `table` has, of all tenants.
    pub async fn count(&self, table: &str) -> i64 {
        self.ask(&format!("SELECT count(*) FROM {table}"), &[]).await
    }

    /// How many audit entries of this kind `tenant` has.
    pub async fn audited(&self, tenant: &str, event_type: &str) -> i64 {
        let sql = "SELECT count(*) FROM audit.entry WHERE tenant_id = $1 AND event_type = $2";
        self.ask(sql, &[&tenant, &event_type]).await
    }

    /// Publishes the daily tick of `day` for `tenant`.
    pub async fn tick(&self, tenant: &str, day: Date) {
        let scheduled_for = day.to_zoned(TimeZone::UTC).expect("a day has a beginning").timestamp();
        let tick = LoanAccrue { schedule: "lending-accrual".into(), scheduled_for, part: 0 };
        let mut tx = self.platform.db().begin(self.platform.scope(tenant)).await.expect("a transaction");
        outbox::publish(&mut tx, &tick).await.expect("the tick fits its contract");
        tx.commit().await.expect("the commit works");
    }

    /// Publishes the daily tick and waits until every loan of `tenant` is served.
    pub async fn serve_day(&self, tenant: &str, day: Date) {
        self.tick(tenant, day).await;
        let sql = "SELECT count(*) FROM lending.loan WHERE tenant_id = $1 AND serviced_to < $2
                   AND status IN ('active', 'in_modification', 'bankruptcy')";
        eventually("every loan is served", || async {
            (self.ask::<i64>(sql, &[&tenant, &day]).await == 0).then_some(())
        })
        .await;
    }

    /// Waits until nothing waits in `queue`, now or for later.
    pub async fn drained(&self, queue: &str) {
        eventually("the queue is empty", || async {
            let all = queue_stats(self.platform.db()).await.expect("the queues can be counted");
            let found = all.into_iter().find(|found| found.queue == queue).expect("the queue is declared");
            (found.depth + found.deferred == 0).then_some(())
        })
        .await;
    }
}
