//! A pooler in transaction mode is detected, and tenants stay isolated all the same.

use crate::support::{migrated, note, tenant};
use onceward_db::{
    Db, DbConfig, DbError, migrate,
    session::{self, SessionMode},
};
use onceward_testkit::{DatabaseProxy, Pooler, TestDb, eventually};
use std::time::Duration;

async fn behind_a_pooler() -> (TestDb, Pooler, Db) {
    let database = migrated().await;
    let direct = Db::connect(database.config()).expect("valid settings");
    for (name, id) in [("acme", 1), ("globex", 11)] {
        let tx = direct.begin(tenant(name)).await.expect("a connection");
        note(&tx, id).await.expect("a tenant writes its own rows");
        tx.commit().await.expect("it commits");
    }
    let pooler = Pooler::start(&database.url());
    let db = Db::connect(DbConfig { pool_size: 1, ..DbConfig::new(pooler.url()) }).expect("valid settings");
    eventually("the pooler answers", || async { db.connection().await.ok() }).await;
    (database, pooler, db)
}

#[tokio::test]
async fn a_transaction_on_a_session_without_our_role_sees_no_foreign_row() {
    let (_database, pooler, db) = behind_a_pooler().await;
    // The session that had our role is replaced by a new one, as the pooler does automatically every hour.
    let console = tokio_postgres::connect(&pooler.console_url(), tokio_postgres::NoTls).await.expect("the console");
    let (client, connection) = console;
    tokio::spawn(connection);
    client.simple_query("RECONNECT").await.expect("the pooler reconnects");
    let session = db.connection().await.expect("a connection");
    let role = session.query("SELECT current_user::text", &[]).await.expect("a role");
    assert_ne!(role[0].get::<_, &str>(0), onceward_db::APP_ROLE, "the pooler has changed our session");
    drop(session);

    let tx = db.begin(tenant("acme")).await.expect("a connection");
    let rows = tx.query("SELECT id FROM probe.note ORDER BY id", &[]).await.expect("the table can be read");
    assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<i32>>(), [1]);
}

#[tokio::test]
async fn shared_sessions_are_detected_and_refused_with_advice() {
    let (database, _pooler, db) = behind_a_pooler().await;
    assert_eq!(session::check(&db).await.expect("the check succeeds"), SessionMode::Shared);
    let refused = session::require_own(&db).await.expect_err("not a session of our own");
    assert!(matches!(&refused, DbError::Config(_)), "{refused:?}");
    assert!(refused.to_string().contains("pool_mode = session"), "{refused}");

    let direct = Db::connect(database.config()).expect("valid settings");
    assert_eq!(session::check(&direct).await.expect("the check succeeds"), SessionMode::Own);
    // The check leaves nothing behind on the pooler's sessions.
    let owner = migrate::owner(&database.config()).await.expect("the database can be reached");
    let open = owner.query(
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'",
        &[],
    );
    assert!(open.await.expect("the check succeeds").is_empty());
}

#[tokio::test]
async fn a_pooler_with_a_single_session_is_detected() {
    let database = migrated().await;
    let pooler = Pooler::with_pool_size(&database.url(), 1);
    let db = Db::connect(DbConfig { pool_size: 1, ..DbConfig::new(pooler.url()) }).expect("valid settings");
    eventually("the pooler answers", || async { db.connection().await.ok() }).await;
    assert_eq!(session::check(&db).await.expect("the check succeeds"), SessionMode::Shared);
    assert_eq!(session::check(&db).await.expect("the session is free again"), SessionMode::Shared);
}

#[tokio::test]
async fn a_connection_that_is_not_served_during_anothers_transaction_counts_as_shared() {
    let database = migrated().await;
    let network = DatabaseProxy::with_one_session(&database.url()).await;
    let db = Db::connect(DbConfig::new(network.url())).expect("valid settings");
    assert_eq!(session::check(&db).await.expect("the check succeeds"), SessionMode::Shared);
}

#[tokio::test]
async fn the_session_check_makes_few_round_trips() {
    let database = migrated().await;
    let network = DatabaseProxy::with_delay(&database.url(), Duration::ZERO).await;
    let db = Db::connect(DbConfig::new(network.url())).expect("valid settings");
    drop(db.connection().await.expect("a connection"));
    let before = network.requests();
    assert_eq!(session::check(&db).await.expect("the check succeeds"), SessionMode::Own);
    let requests = network.requests() - before;
    assert!(requests <= 40, "the check makes {requests} requests, each of which costs a round trip");
}

#[tokio::test]
async fn shared_sessions_are_detected_while_other_clients_keep_the_pooler_busy() {
    let (_database, pooler, db) = behind_a_pooler().await;
    let others = (0..3).map(|_| async {
        let (client, connection) =
            tokio_postgres::connect(&pooler.url(), tokio_postgres::NoTls).await.expect("the pooler answers");
        tokio::spawn(connection);
        loop {
            client.simple_query("SELECT pg_sleep(0.0005)").await.expect("the pooler answers");
        }
    });
    let check = async {
        for _ in 0..20 {
            assert_eq!(session::check(&db).await.expect("the check succeeds"), SessionMode::Shared);
        }
    };
    tokio::select! {
        () = check => {}
        _ = futures_util::future::join_all(others) => unreachable!("the other clients never finish"),
    }
}
