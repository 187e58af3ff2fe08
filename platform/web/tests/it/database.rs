//! One database for all tests of this binary, on a server named by the environment or on a private one. Tests are
//! separated by tenant. The database is dropped when the last test that holds it ends.

use onceward_db::{DbConfig, Migration, Migrations, migrate};
use onceward_local_postgres::{Cluster, ClusterOptions, Programs};
use parking_lot::Mutex;
use std::{
    path::PathBuf,
    sync::{Arc, Weak},
};
use uuid::Uuid;

const NOTES: Migrations = Migrations {
    schema: "web_test",
    steps: &[Migration {
        name: "0001_note",
        sql: "CREATE TABLE web_test.note (
                  tenant_id text NOT NULL,
                  id bigint GENERATED ALWAYS AS IDENTITY,
                  text text NOT NULL,
                  PRIMARY KEY (tenant_id, id));
              SELECT onceward_meta.protect('web_test.note')",
    }],
};

static SHARED: Mutex<Weak<Database>> = Mutex::new(Weak::new());

pub struct Database {
    pub url: String,
    name: String,
    server_url: String,
    private: Option<(Cluster, PathBuf)>,
}

impl Database {
    /// Returns the database, creating it at first use.
    pub fn get() -> Arc<Self> {
        let mut shared = SHARED.lock();
        if let Some(database) = shared.upgrade() {
            return database;
        }
        let database = Arc::new(Self::create());
        *shared = Arc::downgrade(&database);
        database
    }

    fn create() -> Self {
        let name = format!("web_{}", Uuid::new_v4().simple());
        let (server_url, private) = match std::env::var("ONCEWARD_TEST_DATABASE_URL") {
            Ok(url) => (url, None),
            Err(_) => private_server(),
        };
        let url = DbConfig::sibling_url(&server_url, &name);
        let database = Self { url, name, server_url, private };
        database.as_owner(format!("CREATE DATABASE {}", database.name));
        let config = DbConfig::new(&database.url);
        on_a_thread(async move {
            migrate::migrate(&config, &[onceward_web::MIGRATIONS, NOTES]).await.unwrap();
        });
        database
    }

    fn as_owner(&self, sql: String) {
        let config = DbConfig::new(&self.server_url);
        on_a_thread(async move {
            let owner = migrate::owner(&config).await.unwrap();
            owner.batch_execute(&sql).await.unwrap();
        });
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        match self.private.take() {
            Some((cluster, folder)) => {
                drop(cluster);
                let _ = std::fs::remove_dir_all(folder);
            }
            None => self.as_owner(format!("DROP DATABASE {} WITH (FORCE)", self.name)),
        }
    }
}

fn private_server() -> (String, Option<(Cluster, PathBuf)>) {
    let folder = std::env::temp_dir().join(format!("onceward-web-{}", Uuid::new_v4().simple()));
    let programs = Programs::find().unwrap();
    let settings = [("fsync", "off"), ("full_page_writes", "off")];
    let options =
        ClusterOptions { settings: settings.map(|(name, value)| (name.into(), value.into())).into(), port: None };
    let cluster = Cluster::start(&programs, &folder, options).unwrap();
    (cluster.url("postgres"), Some((cluster, folder)))
}

/// Runs `work` on its own thread: each test has its own runtime, and the database outlives all of them.
fn on_a_thread(work: impl Future<Output = ()> + Send + 'static) {
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(work);
    };
    std::thread::spawn(run).join().unwrap();
}
