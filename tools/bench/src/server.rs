//! The PostgreSQL to measure, a new database on it, and the platform in that database.

use crate::{
    BenchSettings,
    brokers::BenchBroker,
    service::{self, HandlerStats},
    store,
};
use anyhow::Context;
use onceward::{
    Config, Db, DbConfig, Platform, Service,
    broker::{Broker, BusKind},
    connect,
    db::migrate,
    runtime::ProcessRuntime,
};
use onceward_local_postgres::{Cluster, ClusterOptions, Programs};
use std::{path::PathBuf, sync::Arc};
use tokio::net::TcpListener;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The environment of a bench. [`Bench::shut_down`] removes it with all its data.
pub(crate) struct Bench {
    pub stats: Arc<HandlerStats>,
    pub url: String,
    platform: Platform,
    config: Config,
    server: Server,
    name: String,
    broker: BenchBroker,
}

enum Server {
    Private { cluster: Box<Cluster>, folder: PathBuf },
    Given(String),
}

impl Bench {
    /// Starts with PostgreSQL as the bus.
    pub(crate) async fn start(settings: &BenchSettings, timed: bool) -> anyhow::Result<Self> {
        Self::on_bus(settings, timed, BusKind::Postgres).await
    }

    pub(crate) async fn on_bus(settings: &BenchSettings, timed: bool, bus: BusKind) -> anyhow::Result<Self> {
        let stats = Arc::new(HandlerStats::default());
        let service = service::service(&stats, timed);
        Ok(Self { stats, ..Self::with_services(settings, bus, vec![service]).await? })
    }

    /// Starts with these services instead of the bench service.
    pub(crate) async fn with_services(
        settings: &BenchSettings,
        bus: BusKind,
        services: Vec<Service>,
    ) -> anyhow::Result<Self> {
        let server = match &settings.database_url {
            Some(url) => Server::Given(url.clone()),
            None => tokio::task::spawn_blocking(start_private_server).await??,
        };
        let name = format!("bench_{}", Uuid::now_v7().simple());
        let (maintenance, url) = match &server {
            Server::Private { cluster, .. } => (cluster.url("postgres"), cluster.url(&name)),
            Server::Given(url) => (url.clone(), DbConfig::sibling_url(url, &name)),
        };
        let admin = migrate::owner(&DbConfig::new(&maintenance))
            .await
            .context("connecting to the PostgreSQL to measure failed")?;
        admin.batch_execute(&format!("CREATE DATABASE {name}")).await?;
        let platform = Platform::assemble(services)?;
        let mut config = Config::load_with(None, &[], |_| None)?;
        config.database.url.clone_from(&url);
        config.database.pool_size = settings.clients() + 8;
        config.auth.secret = Uuid::new_v4().to_string();
        let broker = BenchBroker::start(settings, bus).await?;
        config.bus.url = broker.url();
        config.bus.namespace = format!("{name}.");
        platform.migrate(&config.db(), bus).await?;
        Ok(Self { stats: Arc::default(), url, platform, config, server, name, broker })
    }

    /// Creates an instance of the platform, equivalent to a separate process.
    pub(crate) fn instance(&self) -> anyhow::Result<PlatformInstance> {
        self.instance_with(|_| {})
    }

    /// Creates an instance with changed settings.
    pub(crate) fn instance_with(&self, change: impl FnOnce(&mut Config)) -> anyhow::Result<PlatformInstance> {
        let stop = CancellationToken::new();
        let mut config = self.config.clone();
        change(&mut config);
        let running = ProcessRuntime::new(self.platform.clone(), config, stop.clone())?;
        Ok(PlatformInstance { running, stop })
    }

    /// Connects to the external broker directly, without the platform.
    pub(crate) fn broker(&self) -> anyhow::Result<Arc<dyn Broker>> {
        connect::connect(&self.config, self.platform.topology())?
            .context("PostgreSQL is the bus: there is no external broker")
    }

    /// Returns every role that a route requires.
    pub(crate) fn roles(&self) -> Vec<String> {
        self.platform.roles()
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Connects as the database owner.
    pub(crate) async fn owner(&self) -> anyhow::Result<Client> {
        Ok(migrate::owner(&DbConfig::new(&self.url)).await?)
    }

    /// Returns the bytes of WAL that the whole server has written so far.
    pub(crate) async fn wal_bytes(&self) -> anyhow::Result<f64> {
        Ok(self.owner().await?.query_one(store::WAL_BYTES, &[]).await?.get(0))
    }

    /// Stops the servers and removes the data.
    pub(crate) async fn shut_down(self) -> anyhow::Result<()> {
        self.broker.end().await?;
        match self.server {
            Server::Given(url) => {
                let admin = migrate::owner(&DbConfig::new(url)).await?;
                admin.batch_execute(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name)).await?;
            }
            Server::Private { cluster, folder } => {
                tokio::task::spawn_blocking(move || {
                    let data = cluster.data_dir().to_owned();
                    drop(cluster);
                    let _ = std::fs::remove_dir_all(data);
                    let _ = std::fs::remove_dir_all(folder);
                })
                .await?;
            }
        }
        Ok(())
    }
}

/// A running instance of the platform.
pub(crate) struct PlatformInstance {
    running: ProcessRuntime,
    stop: CancellationToken,
}

impl PlatformInstance {
    pub(crate) fn db(&self) -> &Db {
        self.running.db()
    }

    pub(crate) fn run_consumers(&mut self) {
        self.running.run_consumers();
    }

    pub(crate) fn run_relay(&mut self) {
        self.running.run_relay();
    }

    pub(crate) fn serve_http(&mut self, listener: TcpListener) -> anyhow::Result<()> {
        self.running.serve_http(listener)
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.running.finished().await;
    }
}

fn start_private_server() -> anyhow::Result<Server> {
    let programs = Programs::find()?;
    let folder = std::env::temp_dir().join(format!("onceward-bench-{}", Uuid::now_v7().simple()));
    let cluster = Box::new(Cluster::start(&programs, &folder, ClusterOptions::default())?);
    Ok(Server::Private { cluster, folder })
}
