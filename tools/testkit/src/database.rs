//! A fresh database for each test.

use onceward::{DbConfig, Platform, broker::BusKind, db::migrate};
use onceward_local_postgres::{Cluster, ClusterOptions, Programs};
use std::sync::OnceLock;
use tokio_postgres::Client;
use uuid::Uuid;

/// Everything that waits in a queue, in the deferred messages or in a lane, one description per row.
const PENDING_WORK: &str = "
    SELECT queue || ' holds ' || depth
    FROM onceward.queue_stats(1000)
    WHERE depth > 0
    UNION ALL
    SELECT 'deferred: ' || state
    FROM onceward.deferred
    UNION ALL
    SELECT 'lane ' || w.lane_id || ' has work'
    FROM onceward.queue q, onceward.lanes_with_work(q.id) w";

/// A database that only one test uses; dropped at the end.
pub struct TestDb {
    server: String,
    name: String,
}

impl TestDb {
    /// Creates an empty database.
    pub async fn empty() -> Self {
        let server = server_url();
        let name = format!("test_{}", Uuid::now_v7().simple());
        admin(&server)
            .await
            .batch_execute(&format!("CREATE DATABASE {name}"))
            .await
            .expect("a test database can be created");
        Self { server, name }
    }

    /// Creates a database with the platform's migrations and topology.
    pub async fn for_platform(platform: &Platform) -> Self {
        Self::for_platform_on(platform, BusKind::Postgres).await
    }

    /// Like [`TestDb::for_platform`], for messages that are carried by `bus`.
    pub async fn for_platform_on(platform: &Platform, bus: BusKind) -> Self {
        let database = Self::empty().await;
        platform.migrate(&database.config(), bus).await.expect("the migrations apply");
        database
    }

    /// Returns its URL.
    pub fn url(&self) -> String {
        DbConfig::sibling_url(&self.server, &self.name)
    }

    /// Returns its settings.
    pub fn config(&self) -> DbConfig {
        DbConfig::new(self.url())
    }

    /// Connects as the owner, who is exempt from row-level security.
    pub async fn owner(&self) -> Client {
        migrate::owner(&self.config()).await.expect("the test database can be reached")
    }
}

impl Drop for TestDb {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // Uses its own thread, because the test's runtime may be shutting down.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let statement = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
                admin(&server).await.batch_execute(&statement).await
            })?;
            anyhow::Ok(())
        });
        if !matches!(dropping.join(), Ok(Ok(()))) {
            eprintln!("test database {} was left behind", self.name);
        }
    }
}

/// Describes all messages that are not handled yet. `owner` must see every tenant.
pub async fn pending_work(owner: &Client) -> Vec<String> {
    let rows = owner.query(PENDING_WORK, &[]).await.expect("the database responds");
    rows.iter().map(|row| row.get(0)).collect()
}

async fn admin(server: &str) -> Client {
    migrate::owner(&DbConfig::new(server)).await.expect("the test server can be reached")
}

fn server_url() -> String {
    static PRIVATE: OnceLock<Cluster> = OnceLock::new();
    std::env::var("ONCEWARD_TEST_DATABASE_URL").unwrap_or_else(|_| PRIVATE.get_or_init(private_server).url("postgres"))
}

fn private_server() -> Cluster {
    let folder = std::env::temp_dir().join(format!("onceward-test-{}", std::process::id()));
    let settings =
        [("fsync", "off"), ("full_page_writes", "off")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let options = ClusterOptions { settings: settings.to_vec(), ..ClusterOptions::default() };
    let programs = Programs::find().expect("tests need PostgreSQL's programs; `cargo xtask test` installs them");
    let cluster = Cluster::start(&programs, &folder, options).expect("a private PostgreSQL can be started");
    stop_with_this_process(&cluster);
    cluster
}

/// A static is never dropped, so a separate process stops the server and removes its data when the tests are over.
fn stop_with_this_process(cluster: &Cluster) {
    const STOP_AFTER_OWNER: &str =
        "while kill -0 $0 2>/dev/null; do sleep 1; done; kill -QUIT $1 2>/dev/null; sleep 1; rm -rf \"$2\"";
    let pid = cluster.pid().expect("the server is running").to_string();
    let watcher = std::process::Command::new("sh")
        .args(["-c", STOP_AFTER_OWNER, &std::process::id().to_string(), &pid])
        .arg(cluster.data_dir())
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn();
    if let Err(error) = watcher {
        eprintln!("the private PostgreSQL of this test run will not be stopped: {error}");
    }
}
