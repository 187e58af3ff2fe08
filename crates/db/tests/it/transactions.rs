//! Transactions: what is dropped is undone, what failed cannot be committed, and the pool has an end.

use crate::support::{connect, migrated, note, seen_in, tenant, visible};
use onceward_db::{DbError, Scope};
use onceward_testkit::eventually;

#[tokio::test]
async fn a_dropped_transaction_is_undone_and_its_connection_comes_back_clean() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 1).await.expect("it writes");
    drop(tx);
    // There is one connection only, so this is the same one.
    let tx = db.begin(Scope::platform("probe")).await.expect("it came back");
    let row = tx
        .query_one("SELECT current_setting('onceward.tenant_id', true), count(*) FROM probe.note", &[])
        .await
        .expect("a row");
    assert_eq!(row.get::<_, Option<&str>>(0).unwrap_or(""), "");
    assert_eq!(row.get::<_, i64>(1), 0);
    drop(tx);
    assert_eq!(visible(&db, tenant("acme")).await, [0; 0]);
}

#[tokio::test]
async fn a_transaction_that_did_nothing_costs_nothing_and_commits() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let tx = db.begin(tenant("acme")).await.expect("a connection");
    tx.commit().await.expect("nothing to do");
    assert_eq!(visible(&db, tenant("acme")).await, [0; 0]);
}

#[tokio::test]
async fn committing_after_a_failed_statement_is_an_error_and_writes_nothing() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 1).await.expect("the first");
    let twice = note(&tx, 1).await.expect_err("the same again");
    assert_eq!(twice.unique_violation(), Some("note_pkey"));
    let committed = tx.commit().await;
    assert!(matches!(committed, Err(DbError::Aborted)), "{committed:?}");
    assert_eq!(visible(&db, tenant("acme")).await, [0; 0]);
}

#[tokio::test]
async fn a_statements_error_says_what_the_server_said_and_not_what_the_row_held() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 4711).await.expect("the first");
    let error = note(&tx, 4711).await.expect_err("the same again").to_string();
    assert!(error.contains("23505"), "{error}");
    assert!(!error.contains("4711"), "{error}");
}

#[tokio::test]
async fn two_scopes_in_one_transaction_each_see_their_own() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let mut tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 1).await.expect("acme writes");
    tx.enter(tenant("globex"));
    note(&tx, 2).await.expect("globex writes");
    assert_eq!(seen_in(&tx).await, [2]);
    tx.enter(tenant("acme"));
    assert_eq!(seen_in(&tx).await, [1]);
    tx.commit().await.expect("both commit");
    assert_eq!(visible(&db, tenant("globex")).await, [2]);
}

#[tokio::test]
async fn a_caller_who_waits_too_long_for_a_connection_is_told_that_all_are_busy() {
    let database = migrated().await;
    let mut config = database.config();
    (config.pool_size, config.acquire_timeout_ms) = (1, 50);
    let db = onceward_db::Db::connect(config).expect("valid settings");
    let held = db.begin(tenant("acme")).await.expect("the only connection");
    let error = db.begin(tenant("acme")).await.err().expect("there is no second");
    assert!(matches!(error, DbError::Busy { pool_size: 1, waited_ms: 50 }), "{error}");
    assert!(error.is_transient());
    drop(held);
    db.begin(tenant("acme")).await.expect("it is free again");
}

#[tokio::test]
async fn a_connection_that_the_server_ended_is_replaced() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let tx = db.begin(tenant("acme")).await.expect("a connection");
    let row = tx.query_one("SELECT pg_backend_pid()", &[]).await;
    let pid: i32 = row.expect("a row").get(0);
    let owner = database.owner().await;
    owner.execute("SELECT pg_terminate_backend($1)", &[&pid]).await.expect("the owner may end it");
    let error = eventually("the loss is noticed", || async { note(&tx, 1).await.err() }).await;
    assert!(error.is_unavailable(), "{error}");
    drop(tx);
    assert_eq!(visible(&db, tenant("acme")).await, [0; 0]);
}
