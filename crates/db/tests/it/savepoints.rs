//! Savepoints: nested, unsent, after errors, and with what was buffered for the commit.

use crate::support::{connect, migrated, note, seen_in, tenant, visible};
use onceward_db::{CommitBuffer, Connection, DbError, Stage};
use std::{any::Any, future::Future, pin::Pin};
use tokio_postgres::Statement;

#[tokio::test]
async fn what_came_after_a_savepoint_is_undone_and_work_goes_on() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let mut tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 1).await.expect("before");
    let outer = tx.savepoint();
    note(&tx, 2).await.expect("within the outer");
    let inner = tx.savepoint();
    note(&tx, 3).await.expect("within the inner");
    tx.rollback_to(inner).await.expect("the inner is undone");
    assert_eq!(seen_in(&tx).await, [1, 2]);
    note(&tx, 4).await.expect("after the inner");
    tx.release(inner);
    tx.rollback_to(outer).await.expect("the outer is undone");
    tx.release(outer);
    note(&tx, 5).await.expect("after both");
    tx.commit().await.expect("it commits");
    assert_eq!(visible(&db, tenant("acme")).await, [1, 5]);
}

#[tokio::test]
async fn a_savepoint_that_saw_no_statement_can_be_released_or_returned_to() {
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
async fn an_error_costs_only_what_came_after_the_savepoint() {
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
async fn a_statement_that_cannot_even_be_prepared_costs_only_what_came_after_the_savepoint() {
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
async fn the_tenant_is_the_same_after_a_rollback_as_before_it() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let mut tx = db.begin(tenant("acme")).await.expect("a connection");
    note(&tx, 1).await.expect("acme writes");
    let point = tx.savepoint();
    tx.enter(tenant("globex"));
    note(&tx, 2).await.expect("globex writes");
    tx.rollback_to(point).await.expect("undone");
    // The scope is still globex's, although the server forgot it with the savepoint.
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
    fn stage() -> Stage {
        Stage::Messages
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
async fn what_was_buffered_after_a_savepoint_is_forgotten_with_it() {
    let database = migrated().await;
    let db = connect(&database, 1);
    let mut tx = db.begin(tenant("acme")).await.expect("a connection");
    tx.buffer(Notes::default).0.push(1);
    let point = tx.savepoint();
    tx.buffer(Notes::default).0.push(2);
    tx.rollback_to(point).await.expect("undone");
    tx.buffer(Notes::default).0.push(3);
    tx.release(point);
    assert_eq!(seen_in(&tx).await, [0; 0]);
    tx.commit().await.expect("it commits");
    assert_eq!(visible(&db, tenant("acme")).await, [1, 3]);
}

#[tokio::test]
async fn a_buffer_that_cannot_be_written_takes_the_whole_transaction_with_it() {
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
