//! Surveys inside the test's own process.

use super::Author;
use onceward::{Service, outbox};
use onceward_surveys::{Settings, runtime::ExpireSessions, service, settings::Secret};
use onceward_testkit::{TestPlatform, eventually};
use reqwest::{RequestBuilder, header::HeaderMap};
use serde_json::Value;
use std::time::Duration;
use tokio_postgres::{
    Client,
    types::{FromSql, ToSql},
};
use uuid::Uuid;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The service on a database of its own, reachable over HTTP.
pub struct House {
    pub platform: TestPlatform,
    /// Sees every tenant.
    pub owner: Client,
    pub http: reqwest::Client,
    pub url: String,
}

/// Settings under which no test is slowed down.
pub fn settings() -> Settings {
    Settings {
        token_secret: Secret("a secret for tests that is long enough".into()),
        rate_per_s: 0,
        ..Settings::default()
    }
}

impl House {
    pub async fn open() -> Self {
        Self::with(settings(), None).await
    }

    /// With these settings, on the bus at `bus`.
    pub async fn with(settings: Settings, bus: Option<&str>) -> Self {
        Self::beside(settings, bus, Vec::new()).await
    }

    /// The same beside other services.
    pub async fn beside(settings: Settings, bus: Option<&str>, mut others: Vec<Service>) -> Self {
        others.push(service(settings));
        let mut platform = TestPlatform::on_bus(others, bus).await;
        platform.run_relay();
        platform.run_consumers();
        let url = platform.serve_http().await;
        let owner = platform.database().owner().await;
        let http = reqwest::Client::builder().timeout(REQUEST_TIMEOUT).build().expect("a client can be built");
        Self { platform, owner, http, url }
    }

    pub fn author(&self, tenant: &str) -> Author<'_> {
        Author::new(self, tenant)
    }

    /// The first column of the first row, as the owner sees it.
    pub async fn ask<T>(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> T
    where
        T: for<'a> FromSql<'a>,
    {
        self.owner.query_one(sql, params).await.expect("a query that gives a row").get(0)
    }

    /// How many messages of this type were published.
    pub async fn told(&self, event_type: &str) -> i64 {
        self.ask("SELECT count(DISTINCT id) FROM onceward.outbox_messages WHERE event_type = $1", &[&event_type]).await
    }

    /// The clock ticks for `tenant`; gives when the tick was handled.
    pub async fn tick(&self, tenant: &str) {
        let tick = ExpireSessions { schedule: "test".into(), scheduled_for: jiff::Timestamp::now(), part: 0 };
        let mut tx = self.platform.db().begin(self.platform.scope(tenant)).await.expect("a transaction");
        outbox::publish(&mut tx, &tick).await.expect("the tick fits its contract");
        tx.commit().await.expect("the commit works");
    }

    /// Makes every session of `tenant` look as if it had been silent for `seconds` more.
    pub async fn silence(&self, tenant: &str, seconds: i32) {
        let sql = "UPDATE surveys.session SET last_seen_at = last_seen_at - make_interval(secs => $2),
                   due_at = due_at - make_interval(secs => $2) WHERE tenant_id = $1 AND status = 'active'";
        self.owner.execute(sql, &[&tenant, &f64::from(seconds)]).await.expect("time can be turned back");
    }

    /// Makes one session look silent for long enough to lose its places.
    pub async fn fall_silent(&self, session: Uuid) {
        let sql = "UPDATE surveys.session SET due_at = clock_timestamp() WHERE session_id = $1 AND status = 'active'";
        self.owner.execute(sql, &[&session]).await.expect("time can be turned");
    }

    /// The counts of buckets are what the sessions hold and have filled, in every tenant.
    pub async fn places_add_up(&self) {
        let sql = "SELECT count(*) FROM surveys.quota_bucket b WHERE
            b.reserved_n <> (SELECT count(*) FROM surveys.session s WHERE s.tenant_id = b.tenant_id AND b.bucket_id = ANY (s.held))
            OR b.filled_n <> (SELECT count(*) FROM surveys.session s WHERE s.tenant_id = b.tenant_id AND b.bucket_id = ANY (s.filled))";
        assert_eq!(self.ask::<i64>(sql, &[]).await, 0, "a bucket's counts are not its sessions'");
    }

    pub async fn eventually_told(&self, event_type: &str, times: i64) {
        eventually("it is told", || async { (self.told(event_type).await >= times).then_some(()) }).await;
        assert_eq!(self.told(event_type).await, times, "{event_type}");
    }
}

/// A whole answer. `body` is `null` where there was no JSON.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Answer {
    pub async fn to(request: RequestBuilder) -> Self {
        Self::try_to(request).await.expect("the API answers")
    }

    pub async fn try_to(request: RequestBuilder) -> Result<Self, reqwest::Error> {
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await?;
        Ok(Self { status, headers, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) })
    }

    /// The body of an answer that has this status.
    #[track_caller]
    pub fn with_status(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }

    /// The code of a problem with this status.
    #[track_caller]
    pub fn problem(self, status: u16) -> String {
        self.with_status(status)["code"].as_str().expect("a problem has a code").to_owned()
    }

    /// The places that were complained about, sorted.
    pub fn wrong(&self) -> Vec<&str> {
        let errors = self.body["errors"].as_array();
        let mut paths: Vec<&str> = errors.into_iter().flatten().filter_map(|error| error["path"].as_str()).collect();
        paths.sort_unstable();
        paths
    }
}
