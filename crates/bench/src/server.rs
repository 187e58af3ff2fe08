//! A PostgreSQL to measure, a fresh database on it, and the platform on that.

use crate::{
    Settings,
    brokers::PrivateBroker,
    service::{self, Seen},
    store,
};
use anyhow::Context;
use onceward::{
    Config, Db, DbConfig, Platform, Service, broker,
    db::migrate,
    runtime::Running,
    transport::{Broker, BusKind},
};
use onceward_local_postgres::{Cluster, ClusterOptions, Programs};
use std::{path::PathBuf, sync::Arc};
use tokio::net::TcpListener;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// What a bench works with. Dropped at the end with all its data.
pub(crate) struct Bench {
    pub seen: Arc<Seen>,
    pub url: String,
    platform: Platform,
    config: Config,
    server: Server,
    name: String,
    broker: PrivateBroker,
}

enum Server {
    Private { cluster: Box<Cluster>, folder: PathBuf },
    Given(String),
}

impl Bench {
    /// On PostgreSQL as the bus.
    pub(crate) async fn start(settings: &Settings, timed: bool) -> anyhow::Result<Self> {
        Self::on_bus(settings, timed, BusKind::Postgres).await
    }

    pub(crate) async fn on_bus(settings: &Settings, timed: bool, bus: BusKind) -> anyhow::Result<Self> {
        let seen = Arc::new(Seen::default());
        let service = service::service(&seen, timed);
        Ok(Self { seen, ..Self::of(settings, bus, vec![service]).await? })
    }

    /// Of other services than the usual one.
    pub(crate) async fn of(settings: &Settings, bus: BusKind, services: Vec<Service>) -> anyhow::Result<Self> {
        let server = match &settings.database_url {
            Some(url) => Server::Given(url.clone()),
            None => tokio::task::spawn_blocking(private).await??,
        };
        let name = format!("bench_{}", Uuid::now_v7().simple());
        let (maintenance, url) = match &server {
            Server::Private { cluster, .. } => (cluster.url("postgres"), cluster.url(&name)),
            Server::Given(url) => (url.clone(), DbConfig::sibling_url(url, &name)),
        };
        let admin =
            migrate::owner(&DbConfig::new(&maintenance)).await.context("the server to measure cannot be reached")?;
        admin.batch_execute(&format!("CREATE DATABASE {name}")).await?;
        let platform = Platform::assemble(services)?;
        let mut config = Config::load_with(None, &[], |_| None)?;
        config.database.url.clone_from(&url);
        config.database.pool_size = settings.clients() + 8;
        config.auth.secret = Uuid::new_v4().to_string();
        let broker = PrivateBroker::start(settings, bus).await?;
        config.bus.url = broker.url();
        config.bus.namespace = format!("{name}.");
        platform.migrate(&config.db(), bus).await?;
        Ok(Self { seen: Arc::default(), url, platform, config, server, name, broker })
    }

    /// An instance of the platform, as a process of its own would be.
    pub(crate) fn instance(&self) -> anyhow::Result<Instance> {
        let stop = CancellationToken::new();
        let running = Running::new(self.platform.clone(), self.config.clone(), stop.clone())?;
        Ok(Instance { running, stop })
    }

    /// The external bus, without the platform around it.
    pub(crate) fn broker(&self) -> anyhow::Result<Arc<dyn Broker>> {
        broker::connect(&self.config, self.platform.topology())?.context("PostgreSQL is no broker")
    }

    /// Every role that a route asks for.
    pub(crate) fn roles(&self) -> Vec<String> {
        self.platform.roles()
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// A connection as the owner.
    pub(crate) async fn owner(&self) -> anyhow::Result<Client> {
        Ok(migrate::owner(&DbConfig::new(&self.url)).await?)
    }

    /// Bytes of WAL written so far by the whole server.
    pub(crate) async fn wal_bytes(&self) -> anyhow::Result<f64> {
        Ok(self.owner().await?.query_one(store::WAL_BYTES, &[]).await?.get(0))
    }

    /// Ends everything and removes the data.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
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

/// A running instance.
pub(crate) struct Instance {
    running: Running,
    stop: CancellationToken,
}

impl Instance {
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

fn private() -> anyhow::Result<Server> {
    let programs = Programs::find()?;
    let folder = std::env::temp_dir().join(format!("onceward-bench-{}", Uuid::now_v7().simple()));
    let cluster = Box::new(Cluster::start(&programs, &folder, ClusterOptions::default())?);
    Ok(Server::Private { cluster, folder })
}
