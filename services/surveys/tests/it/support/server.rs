//! The surveys service inside the test's own process.

use super::AuthorClient;
use onceward::{Platform, Service, outbox, runtime::ProcessRuntime};
use onceward_surveys::{Settings, runtime::ExpireSessions, service, settings::SecretSetting};
use onceward_testkit::{HttpResponse, TestPlatform, eventually};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_postgres::{
    Client,
    types::{FromSql, ToSql},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The service on its own database, reachable over HTTP.
pub struct TestServer {
    pub platform: TestPlatform,
    /// A database connection that sees every tenant.
    pub owner: Client,
    pub http: reqwest::Client,
    pub url: String,
}

/// A second instance of the service on the same database, as another process would run it.
pub struct Instance {
    pub url: String,
    _running: ProcessRuntime,
    _stop: CancellationToken,
}

/// Settings that do not slow down any test.
pub fn settings() -> Settings {
    Settings {
        token_secret: SecretSetting("a secret for tests that is long enough".into()),
        rate_per_s: 0,
        ..Settings::default()
    }
}

impl TestServer {
    pub async fn start() -> Self {
        Self::start_with(settings(), None).await
    }

    /// Starts the service with these settings, on the bus at `bus`.
    pub async fn start_with(settings: Settings, bus: Option<&str>) -> Self {
        Self::start_beside(settings, bus, Vec::new()).await
    }

    /// Starts the service alongside other services.
    pub async fn start_beside(settings: Settings, bus: Option<&str>, mut others: Vec<Service>) -> Self {
        others.push(service(settings));
        let mut platform = TestPlatform::on_bus(others, bus).await;
        platform.run_relay();
        platform.run_consumers();
        let url = platform.serve_http().await;
        let owner = platform.database().owner().await;
        let http = reqwest::Client::builder().timeout(REQUEST_TIMEOUT).build().expect("a client can be built");
        Self { platform, owner, http, url }
    }

    /// Serves HTTP a second time, sharing no memory with the first instance.
    pub async fn another_instance(&self, settings: Settings) -> Instance {
        let platform = Platform::assemble(vec![service(settings)]).expect("the services can be assembled");
        let stop = CancellationToken::new();
        let config = self.platform.config().clone();
        let mut running = ProcessRuntime::new(platform, config, stop.clone()).expect("the platform connects");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("a bound address"));
        running.serve_http(listener).expect("the router can be built");
        Instance { url, _running: running, _stop: stop }
    }

    pub fn author(&self, tenant: &str) -> AuthorClient<'_> {
        AuthorClient::new(self, tenant)
    }

    /// Returns the first column of the first row, as the owner sees it.
    pub async fn query_value<T>(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> T
    where
        T: for<'a> FromSql<'a>,
    {
        self.owner.query_one(sql, params).await.expect("the query returns a row").get(0)
    }

    /// Returns the number of published messages of this type.
    pub async fn published_count(&self, event_type: &str) -> i64 {
        self.query_value(
            "SELECT count(DISTINCT id) FROM onceward.outbox_messages WHERE event_type = $1",
            &[&event_type],
        )
        .await
    }

    /// Publishes a tick for `tenant`, without waiting until it is handled.
    pub async fn publish_expiry_tick(&self, tenant: &str) {
        let tick = ExpireSessions { schedule: "test".into(), scheduled_for: jiff::Timestamp::now(), part: 0 };
        let mut tx = self.platform.db().begin(self.platform.scope(tenant)).await.expect("a transaction");
        outbox::publish(&mut tx, &tick).await.expect("the tick matches its schema");
        tx.commit().await.expect("the commit succeeds");
    }

    /// Makes every session of `tenant` look inactive for `seconds` longer.
    pub async fn make_idle(&self, tenant: &str, seconds: i32) {
        let sql = "UPDATE surveys.session SET last_seen_at = last_seen_at - make_interval(secs => $2),
                   due_at = due_at - make_interval(secs => $2) WHERE tenant_id = $1 AND status = 'active'";
        self.owner.execute(sql, &[&tenant, &f64::from(seconds)]).await.expect("the times can be changed");
    }

    /// Makes one session look inactive for long enough to lose its places.
    pub async fn make_session_idle(&self, session: Uuid) {
        let sql = "UPDATE surveys.session SET due_at = clock_timestamp() WHERE session_id = $1 AND status = 'active'";
        self.owner.execute(sql, &[&session]).await.expect("the time can be changed");
    }

    /// Asserts in every tenant that the buckets' counts equal the places that sessions hold and have filled.
    pub async fn assert_places_consistent(&self) {
        let sql = "SELECT count(*) FROM surveys.quota_bucket b WHERE
            b.reserved_n <> (SELECT count(*) FROM surveys.session s WHERE s.tenant_id = b.tenant_id AND b.bucket_id = ANY (s.held))
            OR b.filled_n <> (SELECT count(*) FROM surveys.session s WHERE s.tenant_id = b.tenant_id AND b.bucket_id = ANY (s.filled))";
        assert_eq!(self.query_value::<i64>(sql, &[]).await, 0, "a bucket's counts differ from its sessions' places");
    }

    /// Waits until exactly `times` messages of this type are published.
    pub async fn wait_for_published(&self, event_type: &str, times: i64) {
        eventually("the messages are published", || async {
            (self.published_count(event_type).await >= times).then_some(())
        })
        .await;
        assert_eq!(self.published_count(event_type).await, times, "{event_type}");
    }
}

/// Problem documents in responses.
pub trait ProblemResponse {
    /// Asserts the status and returns the problem's code.
    fn problem(self, status: u16) -> String;
}

impl ProblemResponse for HttpResponse {
    #[track_caller]
    fn problem(self, status: u16) -> String {
        self.with_status(status)["code"].as_str().expect("a problem has a code").to_owned()
    }
}
