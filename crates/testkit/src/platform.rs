//! A platform that runs inside a test.

use crate::{SECRET, TestDb, token::sign};
use jiff::Timestamp;
use onceward::{
    Config, Db, Platform, Scope, Service, TenantId,
    runtime::Running,
    transport::{Broker, BusKind},
    web::Claims,
};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Services on a database of their own. Nothing runs until it is started.
pub struct TestPlatform {
    database: TestDb,
    platform: Platform,
    config: Config,
    running: Running,
    stop: CancellationToken,
}

impl TestPlatform {
    /// Assembles and migrates `services`.
    pub async fn new(services: Vec<Service>) -> Self {
        let platform = Platform::assemble(services).expect("the services fit together");
        let database = TestDb::for_platform(&platform).await;
        Self::on(database, platform)
    }

    /// The same on the bus that `url` names; none is PostgreSQL.
    pub async fn on_bus(services: Vec<Service>, url: Option<&str>) -> Self {
        let platform = Platform::assemble(services).expect("the services fit together");
        let bus = BusKind::of_url(url.unwrap_or_default()).expect("a bus that there is");
        let database = TestDb::for_platform_on(&platform, bus).await;
        Self::with_config(database, platform, |config| {
            config.bus.url = url.unwrap_or_default().to_owned();
            config.bus.namespace = format!("t{}.", Uuid::now_v7().simple());
            config.bus.heartbeat_ms = 3_000;
        })
    }

    /// The external bus, as a program outside the platform would use it, with this platform's names.
    pub fn broker(&self) -> Arc<dyn Broker> {
        let broker = onceward::broker::connect(&self.config, self.platform.topology()).expect("a valid configuration");
        broker.expect("the platform runs on an external bus")
    }

    /// The platform on a database that is migrated already.
    pub fn on(database: TestDb, platform: Platform) -> Self {
        Self::with_config(database, platform, |_| {})
    }

    /// The same with other settings than the tests' usual ones.
    pub fn with_config(database: TestDb, platform: Platform, change: impl FnOnce(&mut Config)) -> Self {
        onceward::cli::install_crypto();
        let mut config = Config::load_with(None, &[], |_| None).expect("the defaults are valid");
        config.database.url = database.url();
        config.auth.secret = SECRET.to_owned();
        config.bus.poll_ms = 200;
        change(&mut config);
        let stop = CancellationToken::new();
        let running = Running::new(platform.clone(), config.clone(), stop.clone()).expect("the parts connect");
        Self { database, platform, config, running, stop }
    }

    /// Starts every consumer.
    pub fn run_consumers(&mut self) {
        self.running.run_consumers();
    }

    /// Starts carrying messages to the external bus, if there is one.
    pub fn run_relay(&mut self) {
        self.running.run_relay();
    }

    /// Starts serving HTTP; gives the base URL.
    pub async fn serve_http(&mut self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        self.running.serve_http(listener).expect("the router can be built");
        format!("http://{address}")
    }

    /// A database handle whose transactions can publish.
    pub fn db(&self) -> &Db {
        self.running.db()
    }

    /// The database.
    pub fn database(&self) -> &TestDb {
        &self.database
    }

    /// The platform.
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// The settings it runs with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The scope of a tenant.
    pub fn scope(&self, tenant: &str) -> Scope {
        Scope::tenant(TenantId::new(tenant).expect("a valid tenant"))
    }

    /// A token of `tenant` with every role.
    pub fn token(&self, tenant: &str) -> String {
        self.token_for(tenant, "tester", &self.platform.roles(), 3600)
    }

    /// A token as wanted. A negative validity makes an expired one.
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

    /// Another instance on the same database, as a second process would be.
    pub fn another_instance(&self) -> (Running, CancellationToken) {
        let stop = CancellationToken::new();
        let running =
            Running::new(self.platform.clone(), self.config.clone(), stop.clone()).expect("the parts connect");
        (running, stop)
    }

    /// Stops everything; `true` if all work in hand was finished or handed back in time. Gives the database back.
    pub async fn stop(self) -> (bool, TestDb) {
        self.stop.cancel();
        (self.running.finished().await, self.database)
    }
}
