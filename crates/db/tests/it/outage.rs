//! A database that goes away and comes back.

use crate::support::{MIGRATIONS, note, tenant, visible};
use onceward_db::{Db, DbConfig, DbError, migrate};
use onceward_local_postgres::{Cluster, ClusterOptions, Programs, Shutdown};
use onceward_testkit::eventually;
use std::path::PathBuf;

/// A server of this test's own, because others would not like it to be stopped.
struct OwnServer {
    cluster: Cluster,
    folder: PathBuf,
}

impl OwnServer {
    fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("onceward-outage-{}", std::process::id()));
        let programs = Programs::find().expect("PostgreSQL's programs are installed");
        let settings = [("fsync", "off"), ("shared_buffers", "16MB")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec();
        let options = ClusterOptions { settings, ..ClusterOptions::default() };
        let cluster = Cluster::start(&programs, &folder, options).expect("a server starts");
        Self { cluster, folder }
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        let _ = self.cluster.stop(Shutdown::Immediate);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_gone_is_reported_as_unavailable_and_used_again_when_it_is_back() {
    let mut server = OwnServer::start();
    let config = DbConfig::new(server.cluster.url("postgres"));
    migrate::migrate(&config, &[MIGRATIONS]).await.expect("it migrates");
    let db = Db::connect(config.clone()).expect("valid settings");
    let tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 1).await.expect("it writes");

    server.cluster.stop(Shutdown::Immediate).expect("it stops");
    let committed = tx.commit().await.expect_err("nobody answers");
    assert!(matches!(committed, DbError::OutcomeUnknown), "{committed:?}");
    let begun = eventually("the outage is noticed", || async {
        match db.begin(tenant("acme")).await {
            Err(error) => Some(error),
            Ok(tx) => note(&tx, 2).await.err(),
        }
    })
    .await;
    assert!(begun.is_unavailable(), "{begun:?}");
    let migrated = migrate::migrate(&config, &[MIGRATIONS]).await;
    assert!(matches!(migrated, Err(DbError::Unavailable(_))), "{migrated:?}");

    server.cluster.restart().expect("it starts again");
    eventually("it is used again", || async {
        let tx = db.begin(tenant("acme")).await.ok()?;
        note(&tx, 3).await.ok()?;
        tx.commit().await.ok()
    })
    .await;
    assert_eq!(visible(&db, tenant("acme")).await, [3]);
}

#[tokio::test]
async fn an_address_that_is_not_one_is_a_mistake_in_the_settings() {
    let error = Db::connect(DbConfig::new("not an address")).err().expect("no address");
    assert!(matches!(error, DbError::Config(_)), "{error:?}");
    assert!(error.to_string().contains("DATABASE_URL"), "{error}");
}

#[tokio::test]
async fn a_process_can_start_before_its_database() {
    let db = Db::connect(DbConfig::new("postgres://onceward@127.0.0.1:1/none")).expect("no connection is made yet");
    let error = db.begin(tenant("acme")).await.err().expect("nobody listens there");
    assert!(matches!(error, DbError::Unavailable(_)), "{error:?}");
}
