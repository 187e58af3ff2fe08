//! Transactions: a dropped one is rolled back, a failed one cannot be committed, and the pool is bounded.

use crate::support::{connect, migrated, note, tenant, visible, visible_ids};
use futures_util::poll;
use onceward_db::{DbError, Scope};
use onceward_testkit::eventually;
use std::pin::pin;

#[tokio::test]
async fn a_dropped_transaction_is_rolled_back_and_its_connection_returns_clean() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 1).await.expect("it writes");
    drop(tx);
    // The pool has only one connection, so this is the same one.
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
async fn an_empty_transaction_commits_without_a_statement() {
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

/// Under row-level security the server itself withholds values, so this table has none.
#[tokio::test]
async fn no_printed_form_of_an_error_shows_values_of_the_row() {
    let database = migrated().await;
    let owner = database.owner().await;
    let unprotected =
        "CREATE TABLE probe.open_note (text text PRIMARY KEY); GRANT INSERT ON probe.open_note TO onceward_app";
    owner.batch_execute(unprotected).await.expect("a table without row-level security");
    let db = connect(&database, 1);
    let tx = db.begin(tenant("acme")).await.expect("a connection");
    let insert = "INSERT INTO probe.open_note (text) VALUES ('ada@example.org')";
    tx.execute(insert, &[]).await.expect("the first");
    let error = tx.execute(insert, &[]).await.expect_err("the same again");
    assert_eq!(error.unique_violation(), Some("open_note_pkey"));
    let mut printed = format!("{error} {error:?} {error:#?}");
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        printed.push_str(&format!(" {cause} {cause:?}"));
        source = cause.source();
    }
    assert!(printed.contains("23505"), "{printed}");
    assert!(!printed.contains("ada@example.org"), "{printed}");
}

#[tokio::test]
async fn two_scopes_in_one_transaction_see_only_their_own_rows() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let mut tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 1).await.expect("acme writes");
    tx.enter(tenant("globex"));
    note(&tx, 2).await.expect("globex writes");
    assert_eq!(visible_ids(&tx).await, [2]);
    tx.enter(tenant("acme"));
    assert_eq!(visible_ids(&tx).await, [1]);
    tx.commit().await.expect("both commit");
    assert_eq!(visible(&db, tenant("globex")).await, [2]);
}

#[tokio::test]
async fn a_caller_that_waits_too_long_for_a_connection_gets_a_busy_error() {
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
async fn a_connection_that_the_server_closed_is_replaced() {
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

#[tokio::test]
async fn committing_after_an_abandoned_statement_is_an_error() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 1).await.expect("the first");
    {
        let twice = pin!(note(&tx, 1));
        assert!(poll!(twice).is_pending(), "it is sent and not answered");
    }
    assert!(tx.has_failed(), "nobody knows how it ended");
    let committed = tx.commit().await;
    assert!(matches!(committed, Err(DbError::Aborted)), "{committed:?}");
    assert_eq!(visible(&db, tenant("acme")).await, [0; 0]);
}

#[tokio::test]
async fn rolling_back_to_an_earlier_savepoint_undoes_an_abandoned_statement() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let mut tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 1).await.expect("the first");
    let savepoint = tx.savepoint();
    {
        let twice = pin!(note(&tx, 1));
        assert!(poll!(twice).is_pending(), "it is sent and not answered");
    }
    tx.rollback_to(savepoint).await.expect("the savepoint is there");
    tx.commit().await.expect("the remaining work commits");
    assert_eq!(visible(&db, tenant("acme")).await, [1]);
}

#[tokio::test]
async fn rolling_back_to_an_unsent_savepoint_does_not_undo_an_earlier_failure() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let mut tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 1).await.expect("the first");
    note(&tx, 1).await.expect_err("the same again");
    let savepoint = tx.savepoint();
    tx.rollback_to(savepoint).await.expect("nothing happened since");
    let committed = tx.commit().await;
    assert!(matches!(committed, Err(DbError::Aborted)), "{committed:?}");
}

#[tokio::test]
async fn a_plain_connection_cannot_begin_a_transaction() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let connection = db.connection().await.expect("a connection");
    for sql in ["BEGIN", "start transaction", " ROLLBACK"] {
        let error = connection.query(sql, &[]).await.expect_err("that is what Tx is for");
        assert!(matches!(error, DbError::Config(_)), "{error:?}");
    }
    drop(connection);
    let tx = db.begin(tenant("acme")).await.expect("the same connection");
    note(&tx, 1).await.expect("it is usable");
    tx.commit().await.expect("it commits");
}

#[tokio::test]
async fn a_connection_with_an_abandoned_statement_is_not_reused_before_the_statement_has_ended() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let owner = database.owner().await;
    owner.batch_execute("SELECT pg_advisory_lock(1)").await.expect("it is locked");
    let connection = db.connection().await.expect("a connection");
    let statement = connection.prepare("SELECT pg_advisory_xact_lock(1)").await.expect("it is prepared");
    {
        let waiting = pin!(connection.run(&statement, &[]));
        assert!(poll!(waiting).is_pending(), "it waits for the lock");
    }
    drop(connection);
    assert_eq!(db.status().idle, 0, "it is not in the pool yet");
    owner.batch_execute("SELECT pg_advisory_unlock(1)").await.expect("it is free again");
    eventually("it is in the pool", || async { (db.status().idle == 1).then_some(()) }).await;
    assert_eq!(visible(&db, tenant("acme")).await, [0; 0]);
}
