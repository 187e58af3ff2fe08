//! A database that becomes unavailable and recovers.

use crate::support::{MIGRATIONS, connect, migrated, note, tenant, visible};
use onceward_db::{Db, DbConfig, DbError, migrate, writes};
use onceward_local_postgres::{Cluster, ClusterOptions, Programs, ShutdownMode};
use onceward_testkit::eventually;
use std::path::PathBuf;

/// A server for this test alone, because stopping it would disturb other tests.
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
        let _ = self.cluster.stop(ShutdownMode::Immediate);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_database_is_reported_as_unavailable_and_used_again_after_its_restart() {
    let mut server = OwnServer::start();
    let config = DbConfig::new(server.cluster.url("postgres"));
    migrate::migrate(&config, &[MIGRATIONS]).await.expect("it migrates");
    let db = Db::connect(config.clone()).expect("valid settings");
    let tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 1).await.expect("it writes");

    server.cluster.stop(ShutdownMode::Immediate).expect("it stops");
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
async fn an_invalid_address_is_a_configuration_error() {
    let error = Db::connect(DbConfig::new("not an address")).err().expect("no address");
    assert!(matches!(error, DbError::Config(_)), "{error:?}");
    assert!(error.to_string().contains("DATABASE_URL"), "{error}");
}

#[tokio::test]
async fn a_process_can_start_before_its_database() {
    let db = Db::connect(DbConfig::new("postgres://onceward@127.0.0.1:1/none")).expect("no connection is made yet");
    let error = db.begin(tenant("acme")).await.err().expect("no server listens there");
    assert!(matches!(error, DbError::Unavailable(_)), "{error:?}");
}

#[tokio::test]
async fn a_server_that_refuses_writes_is_an_outage_with_a_known_commit_outcome() {
    let database = migrated().await;
    let db = connect(&database, 2);
    let tx = db.begin(tenant("acme")).await.expect("a connection");
    tx.execute("SET TRANSACTION READ ONLY", &[]).await.expect("a weaker mode can always be set");
    assert!(tx.outage().is_none());
    let error = note(&tx, 1).await.expect_err("nothing can be written");
    assert!(matches!(error, DbError::Impaired { .. }) && error.is_unavailable(), "{error:?}");
    assert!(error.to_string().starts_with("the database is read-only: cannot execute INSERT"), "{error}");
    assert!(tx.outage().is_some_and(|outage| outage.to_string().contains("read-only")));
    drop(tx);

    // The disk is full at the commit: the server has responded, so the outcome is known.
    let owner = database.owner().await;
    let full = "CREATE FUNCTION probe.no_room() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;
                CREATE CONSTRAINT TRIGGER no_room AFTER INSERT ON probe.note DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION probe.no_room()";
    owner.batch_execute(full).await.expect("a disk that is full at the end");
    let tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 2).await.expect("there was room for this");
    let error = tx.commit().await.expect_err("there is no room");
    assert!(matches!(error, DbError::Impaired { reason: "the database's disk is full", .. }), "{error:?}");
    assert_eq!(visible(&db, tenant("acme")).await, [0; 0]);
    writes::check(&db).await.expect("the disk has room after all");
}

#[tokio::test]
async fn a_read_only_database_fails_the_write_check() {
    let database = migrated().await;
    let db = connect(&database, 1);
    writes::check(&db).await.expect("it takes writes");
    let name = database.url().rsplit('/').next().expect("a name").to_owned();
    let owner = database.owner().await;
    let read_only = format!("ALTER DATABASE {name} SET default_transaction_read_only = on");
    owner.batch_execute(&read_only).await.expect("the owner may");
    let error = writes::check(&connect(&database, 1)).await.expect_err("new sessions are read-only");
    assert!(error.is_unavailable() && error.to_string().contains("read-only"), "{error}");
}

#[tokio::test]
async fn an_outage_is_reported_once_with_its_cause() {
    let db = Db::connect(DbConfig::new("postgres://onceward@127.0.0.1:1/none")).expect("no connection is made yet");
    let error = db.begin(tenant("acme")).await.err().expect("no server listens there").to_string();
    assert_eq!(error.matches("not available").count(), 1, "{error}");
    assert!(error.contains("refused"), "{error}");
}
