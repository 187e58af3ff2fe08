//! Savepoints: nested, unsent, after errors, and with buffers for the commit.

use crate::support::{connect, migrated, note, tenant, visible, visible_ids};
use onceward_db::{CommitBuffer, CommitStage, Connection, DbError};
use parking_lot::Mutex;
use std::{any::Any, future::Future, pin::Pin, sync::Arc};
use tokio_postgres::Statement;

#[tokio::test]
async fn work_after_a_savepoint_is_undone_and_the_transaction_continues() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let mut tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 1).await.expect("before");
    let outer = tx.savepoint();
    note(&tx, 2).await.expect("within the outer");
    let inner = tx.savepoint();
    note(&tx, 3).await.expect("within the inner");
    tx.rollback_to(inner).await.expect("the inner is undone");
    assert_eq!(visible_ids(&tx).await, [1, 2]);
    note(&tx, 4).await.expect("after the inner");
    tx.release(inner);
    tx.rollback_to(outer).await.expect("the outer is undone");
    tx.release(outer);
    note(&tx, 5).await.expect("after both");
    tx.commit().await.expect("it commits");
    assert_eq!(visible(&db, tenant("acme")).await, [1, 5]);
}

#[tokio::test]
async fn a_savepoint_without_statements_can_be_released_or_rolled_back_to() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let mut tx = db.begin(tenant("acme")).await.expect("a connection");
    let first = tx.savepoint();
    tx.rollback_to(first).await.expect("nothing to undo");
    let second = tx.savepoint();
    tx.release(second);
    tx.release(first);
    note(&tx, 1).await.expect("it writes");
    let third = tx.savepoint();
    tx.rollback_to(third).await.expect("nothing to undo");
    note(&tx, 2).await.expect("within the third");
    tx.rollback_to(third).await.expect("this is undone");
    tx.release(third);
    tx.commit().await.expect("it commits");
    assert_eq!(visible(&db, tenant("acme")).await, [1]);
}

#[tokio::test]
async fn an_error_undoes_only_the_work_after_the_savepoint() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let mut tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 1).await.expect("before");
    let point = tx.savepoint();
    note(&tx, 1).await.expect_err("the same again");
    tx.rollback_to(point).await.expect("the error is undone");
    tx.release(point);
    note(&tx, 2).await.expect("after");
    tx.commit().await.expect("it commits");
    assert_eq!(visible(&db, tenant("acme")).await, [1, 2]);
}

#[tokio::test]
async fn a_statement_that_cannot_be_prepared_undoes_only_the_work_after_the_savepoint() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let mut tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 1).await.expect("before");
    let point = tx.savepoint();
    tx.query("SELECT nothing FROM probe.nowhere", &[]).await.expect_err("there is no such table");
    tx.rollback_to(point).await.expect("the error is undone");
    tx.release(point);
    note(&tx, 2).await.expect("after");
    tx.commit().await.expect("it commits");
    assert_eq!(visible(&db, tenant("acme")).await, [1, 2]);
}

#[tokio::test]
async fn rolling_back_to_a_savepoint_keeps_the_current_tenant() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let mut tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 1).await.expect("acme writes");
    let point = tx.savepoint();
    tx.enter(tenant("globex"));
    note(&tx, 2).await.expect("globex writes");
    tx.rollback_to(point).await.expect("undone");
    // The scope is still globex's, although the server discarded it with the savepoint.
    assert_eq!(tx.tenant().expect("a tenant").as_str(), "globex");
    note(&tx, 3).await.expect("globex writes again");
    tx.release(point);
    tx.commit().await.expect("it commits");
    assert_eq!(visible(&db, tenant("acme")).await, [1]);
    assert_eq!(visible(&db, tenant("globex")).await, [3]);
}

/// Notes that are written with the commit.
#[derive(Default)]
struct Notes(Vec<i32>);

impl CommitBuffer for Notes {
    fn stage() -> CommitStage {
        CommitStage::Messages
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }
    fn statement(&self) -> &'static str {
        "INSERT INTO probe.note (tenant_id, id) SELECT 'acme', unnest($1::int[])"
    }
    fn write<'a>(
        &'a self,
        connection: &'a Connection,
        statement: &'a Statement,
    ) -> Pin<Box<dyn Future<Output = Result<(), DbError>> + Send + 'a>> {
        Box::pin(async move { connection.run(statement, &[&self.0]).await.map(drop) })
    }
    fn committed(&self) {}
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[tokio::test]
async fn rows_buffered_after_a_savepoint_are_discarded_with_it() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let mut tx = db.begin(tenant("acme")).await.expect("a connection");
    tx.buffer(Notes::default).0.push(1);
    let point = tx.savepoint();
    tx.buffer(Notes::default).0.push(2);
    tx.rollback_to(point).await.expect("undone");
    tx.buffer(Notes::default).0.push(3);
    tx.release(point);
    assert_eq!(visible_ids(&tx).await, [0; 0]);
    tx.commit().await.expect("it commits");
    assert_eq!(visible(&db, tenant("acme")).await, [1, 3]);
}

#[tokio::test]
async fn a_buffer_that_cannot_be_written_fails_the_whole_transaction() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let mut tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 1).await.expect("a row");
    tx.buffer(Notes::default).0.extend([7, 7]);
    let error = tx.commit().await.expect_err("the same id twice");
    assert!(error.unique_violation().is_some(), "{error}");
    assert_eq!(visible(&db, tenant("acme")).await, [0; 0]);
}

#[tokio::test]
async fn a_dropped_transaction_writes_no_buffer() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let mut tx = db.begin(tenant("acme")).await.expect("a connection");
    tx.buffer(Notes::default).0.push(1);
    note(&tx, 2).await.expect("a row");
    drop(tx);
    assert_eq!(visible(&db, tenant("acme")).await, [0; 0]);
}

#[tokio::test]
async fn after_commit_calls_run_once_and_only_for_committed_work() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let called = Arc::new(Mutex::new(Vec::new()));
    let call = |name: &'static str| {
        let called = called.clone();
        move || called.lock().push(name)
    };
    let mut tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 1).await.expect("it writes");
    tx.after_commit(call("kept"));
    let point = tx.savepoint();
    note(&tx, 2).await.expect("it writes");
    tx.after_commit(call("undone"));
    tx.rollback_to(point).await.expect("back");
    tx.after_commit(call("again"));
    tx.release(point);
    assert!(called.lock().is_empty(), "nothing is durable yet");
    tx.commit().await.expect("it commits");
    assert_eq!(*called.lock(), ["kept", "again"]);

    let mut tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 3).await.expect("it writes");
    tx.after_commit(call("rolled back"));
    tx.rollback().await.expect("undone");
    let mut tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 1).await.expect_err("the number is taken");
    tx.after_commit(call("failed"));
    tx.commit().await.expect_err("a statement failed");
    assert_eq!(called.lock().len(), 2);
}
