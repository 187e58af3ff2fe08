//! A fresh database for each test.

use onceward::{DbConfig, Platform, db::migrate, transport::BusKind};
use onceward_local_postgres::{Cluster, ClusterOptions, Programs};
use std::sync::OnceLock;
use tokio_postgres::Client;
use uuid::Uuid;

/// A database that nobody else uses; dropped at the end.
pub struct TestDb {
    server: String,
    name: String,
}

impl TestDb {
    /// An empty database.
    pub async fn empty() -> Self {
        let server = server_url();
        let name = format!("test_{}", Uuid::now_v7().simple());
        admin(&server)
            .await
            .batch_execute(&format!("CREATE DATABASE {name}"))
            .await
            .expect("a test database can be made");
        Self { server, name }
    }

    /// A database with the platform's migrations and topology.
    pub async fn for_platform(platform: &Platform) -> Self {
        Self::for_platform_on(platform, BusKind::Postgres).await
    }

    /// The same, for messages that go over `bus`.
    pub async fn for_platform_on(platform: &Platform, bus: BusKind) -> Self {
        let database = Self::empty().await;
        platform.migrate(&database.config(), bus).await.expect("the migrations apply");
        database
    }

    /// Its URL.
    pub fn url(&self) -> String {
        DbConfig::sibling_url(&self.server, &self.name)
    }

    /// Its settings.
    pub fn config(&self) -> DbConfig {
        DbConfig::new(self.url())
    }

    /// A connection as the owner, whom row-level security does not bind.
    pub async fn owner(&self) -> Client {
        migrate::owner(&self.config()).await.expect("the test database can be reached")
    }
}

impl Drop for TestDb {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // A thread of its own: the test's runtime may be ending.
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
    end_with_this_process(&cluster);
    cluster
}

/// A static is never dropped, so somebody outside stops the server and removes its data when the tests are over.
fn end_with_this_process(cluster: &Cluster) {
    const WATCH: &str =
        "while kill -0 $0 2>/dev/null; do sleep 1; done; kill -QUIT $1 2>/dev/null; sleep 1; rm -rf \"$2\"";
    let pid = cluster.pid().expect("it was just started").to_string();
    let watching = std::process::Command::new("sh")
        .args(["-c", WATCH, &std::process::id().to_string(), &pid])
        .arg(cluster.data_dir())
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn();
    if let Err(error) = watching {
        eprintln!("the private PostgreSQL of this test run stays up: {error}");
    }
}
