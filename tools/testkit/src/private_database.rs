//! A PostgreSQL that only one test uses, so that it may be stopped.

use crate::{Bus, Executable, Scratch, blocking};
use onceward::{DbConfig, db::migrate};
use onceward_local_postgres::{Cluster, ClusterOptions, Programs, ShutdownMode};
use tokio::sync::{Mutex, MutexGuard};
use tokio_postgres::Client;

/// Tests with their own processes run one at a time, because two of them would slow down each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// A migrated database in a durable cluster that only this test uses.
pub struct PrivateDatabase {
    cluster: Option<Cluster>,
    url: String,
    /// Declared after the cluster, so that it is dropped last.
    scratch: Scratch,
    _lock: MutexGuard<'static, ()>,
}

impl PrivateDatabase {
    /// Waits until no other test has one, starts the server, and migrates it with the executable.
    pub async fn start(executable: &Executable, bus: &Bus) -> Self {
        let lock = ONE_AT_A_TIME.lock().await;
        let scratch = Scratch::new();
        let data = scratch.join("data");
        let cluster = blocking(move || {
            let programs =
                Programs::find().expect("tests need PostgreSQL's programs; `cargo xtask test` installs them");
            Cluster::start(&programs, &data, ClusterOptions::default()).expect("a private PostgreSQL can be started")
        })
        .await;
        let url = cluster.url("postgres");
        let mut variables = bus.variables().to_vec();
        variables.push(("DATABASE_URL", &url));
        executable.run(&["migrate"], &variables, &scratch.join("migrate.log")).await;
        Self { cluster: Some(cluster), url, scratch, _lock: lock }
    }

    /// Returns its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns a folder that is removed with the database.
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Connects as the owner, who is exempt from row-level security.
    pub async fn owner(&self) -> Client {
        migrate::owner(&DbConfig::new(&self.url)).await.expect("the database can be reached")
    }

    /// Stops the server immediately, as in a crash.
    pub async fn crash(&mut self) {
        self.with_cluster(|cluster| cluster.stop(ShutdownMode::Immediate)).await;
    }

    /// Starts the same server again, with its stored data.
    pub async fn restart(&mut self) {
        self.with_cluster(Cluster::restart).await;
    }

    async fn with_cluster<E: std::fmt::Debug + Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Cluster) -> Result<(), E> + Send + 'static,
    ) {
        let mut cluster = self.cluster.take().expect("every use puts the cluster back");
        let used = blocking(move || {
            work(&mut cluster).expect("the cluster can be stopped and started");
            cluster
        });
        self.cluster = Some(used.await);
    }
}
