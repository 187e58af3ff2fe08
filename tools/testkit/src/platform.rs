//! A platform that runs inside a test.

use crate::{SECRET, TestDb, token::sign};
use jiff::Timestamp;
use onceward::{
    Config, Db, Platform, Scope, Service, TenantId,
    broker::{Broker, BusKind},
    runtime::ProcessRuntime,
    web::Claims,
};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Services on their own database. Nothing runs until it is started.
pub struct TestPlatform {
    database: TestDb,
    platform: Platform,
    config: Config,
    running: ProcessRuntime,
    stop: CancellationToken,
}

impl TestPlatform {
    /// Assembles and migrates `services`.
    pub async fn new(services: Vec<Service>) -> Self {
        let platform = Platform::assemble(services).expect("the services can be assembled");
        let database = TestDb::for_platform(&platform).await;
        Self::on(database, platform)
    }

    /// Like [`TestPlatform::new`], on the bus that `url` names; `None` is PostgreSQL.
    pub async fn on_bus(services: Vec<Service>, url: Option<&str>) -> Self {
        let platform = Platform::assemble(services).expect("the services can be assembled");
        let bus = BusKind::of_url(url.unwrap_or_default()).expect("a URL of a supported bus");
        let database = TestDb::for_platform_on(&platform, bus).await;
        Self::with_config(database, platform, |config| {
            config.bus.url = url.unwrap_or_default().to_owned();
            config.bus.namespace = format!("t{}.", Uuid::now_v7().simple());
            config.bus.heartbeat_ms = 3_000;
        })
    }

    /// Returns the external bus, as a program outside the platform would use it, with this platform's names.
    pub fn broker(&self) -> Arc<dyn Broker> {
        let broker = onceward::connect::connect(&self.config, self.platform.topology()).expect("a valid configuration");
        broker.expect("the platform runs on an external bus")
    }

    /// Uses a database that is already migrated.
    pub fn on(database: TestDb, platform: Platform) -> Self {
        Self::with_config(database, platform, |_| {})
    }

    /// Like [`TestPlatform::on`], with changes to the tests' default settings.
    pub fn with_config(database: TestDb, platform: Platform, change: impl FnOnce(&mut Config)) -> Self {
        onceward::install_crypto_provider();
        let mut config = Config::load_with(None, &[], |_| None).expect("the defaults are valid");
        config.database.url = database.url();
        config.auth.secret = SECRET.to_owned();
        config.bus.poll_ms = 200;
        change(&mut config);
        let stop = CancellationToken::new();
        let running =
            ProcessRuntime::new(platform.clone(), config.clone(), stop.clone()).expect("the platform can be created");
        Self { database, platform, config, running, stop }
    }

    /// Starts every consumer.
    pub fn run_consumers(&mut self) {
        self.running.run_consumers();
    }

    /// Starts publishing messages to the external bus, if one is used.
    pub fn run_relay(&mut self) {
        self.running.run_relay();
    }

    /// Starts serving HTTP; returns the base URL.
    pub async fn serve_http(&mut self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        self.running.serve_http(listener).expect("the router can be built");
        format!("http://{address}")
    }

    /// Returns a database handle whose transactions can publish.
    pub fn db(&self) -> &Db {
        self.running.db()
    }

    /// Returns the database.
    pub fn database(&self) -> &TestDb {
        &self.database
    }

    /// Returns the platform.
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// Returns the settings that it runs with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the scope of a tenant.
    pub fn scope(&self, tenant: &str) -> Scope {
        Scope::for_tenant(TenantId::new(tenant).expect("a valid tenant"))
    }

    /// Returns a token of `tenant` with every role.
    pub fn token(&self, tenant: &str) -> String {
        self.token_for(tenant, "tester", &self.platform.roles(), 3600)
    }

    /// Returns a token with these claims. A negative validity creates an expired one.
    pub fn token_for(&self, tenant: &str, user: &str, roles: &[String], valid_s: i64) -> String {
        let exp = u64::try_from(Timestamp::now().as_second() + valid_s).expect("after 1970");
        sign(&Claims {
            sub: user.to_owned(),
            tenant: tenant.to_owned(),
            roles: roles.to_vec(),
            exp,
            ..Claims::default()
        })
    }

    /// Starts another instance on the same database, like a second process.
    pub fn another_instance(&self) -> (ProcessRuntime, CancellationToken) {
        let stop = CancellationToken::new();
        let running = ProcessRuntime::new(self.platform.clone(), self.config.clone(), stop.clone())
            .expect("the platform can be created");
        (running, stop)
    }

    /// Stops everything. Returns `true` if all work in flight was finished or returned in time, and the database.
    pub async fn stop(self) -> (bool, TestDb) {
        self.stop.cancel();
        (self.running.finished().await, self.database)
    }
}
