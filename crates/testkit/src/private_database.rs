//! A PostgreSQL that only one test uses, so that it may be stopped.

use crate::{Bus, Executable, Scratch, blocking};
use onceward::{DbConfig, db::migrate};
use onceward_local_postgres::{Cluster, ClusterOptions, Programs, Shutdown};
use tokio::sync::{Mutex, MutexGuard};
use tokio_postgres::Client;

/// Drills with processes of their own take turns: two at once would mostly measure each other.
static TURN: Mutex<()> = Mutex::const_new(());

/// A migrated database in a durable cluster that only this test uses.
pub struct PrivateDatabase {
    cluster: Option<Cluster>,
    url: String,
    /// After the cluster, so that it goes last.
    scratch: Scratch,
    _turn: MutexGuard<'static, ()>,
}

impl PrivateDatabase {
    /// Waits for its turn, starts the server, and has the executable migrate it.
    pub async fn start(executable: &Executable, bus: &Bus) -> Self {
        let turn = TURN.lock().await;
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
        Self { cluster: Some(cluster), url, scratch, _turn: turn }
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A folder that goes with it.
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// A connection as the owner, whom row-level security does not bind.
    pub async fn owner(&self) -> Client {
        migrate::owner(&DbConfig::new(&self.url)).await.expect("the database can be reached")
    }

    /// Ends the server at once, as a crash would.
    pub async fn crash(&mut self) {
        self.with_cluster(|cluster| cluster.stop(Shutdown::Immediate)).await;
    }

    /// The same server again, with what it kept.
    pub async fn restart(&mut self) {
        self.with_cluster(Cluster::restart).await;
    }

    async fn with_cluster<E: std::fmt::Debug + Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Cluster) -> Result<(), E> + Send + 'static,
    ) {
        let mut cluster = self.cluster.take().expect("the cluster comes back from every use");
        let used = blocking(move || {
            work(&mut cluster).expect("the cluster does as it is told");
            cluster
        });
        self.cluster = Some(used.await);
    }
}
