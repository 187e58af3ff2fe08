//! Buffers written with the commit: several kinds in one order, and all of them or none.

use crate::support::{connect, migrated, note, tenant, visible};
use futures_util::future::BoxFuture;
use onceward_db::{CommitBuffer, CommitStage, Connection, DbError, Tx};
use std::any::Any;
use tokio_postgres::Statement;

/// Notes that are written in the first stage.
#[derive(Default)]
struct Records(Vec<i32>);

/// Notes that are written in the last stage; each contains the number of notes before it.
#[derive(Default)]
struct Messages(Vec<i32>);

/// A message whose parameters do not match its statement.
#[derive(Default)]
struct Unencodable(Vec<i64>);

macro_rules! buffer {
    ($kind:ty, $stage:ident, $sql:literal) => {
        impl CommitBuffer for $kind {
            fn stage() -> CommitStage {
                CommitStage::$stage
            }
            fn len(&self) -> usize {
                self.0.len()
            }
            fn truncate(&mut self, len: usize) {
                self.0.truncate(len);
            }
            fn statement(&self) -> &'static str {
                $sql
            }
            fn write<'a>(
                &'a self,
                connection: &'a Connection,
                statement: &'a Statement,
            ) -> BoxFuture<'a, Result<(), DbError>> {
                Box::pin(async move { connection.run(statement, &[&self.0]).await.map(drop) })
            }
            fn committed(&self) {}
            fn as_any(&mut self) -> &mut dyn Any {
                self
            }
        }
    };
}

buffer!(Records, Records, "INSERT INTO probe.note (tenant_id, id) SELECT 'acme', unnest($1::int[])");
buffer!(
    Messages,
    Messages,
    "INSERT INTO probe.note (tenant_id, id, text)
     SELECT 'acme', m, (SELECT count(*)::text FROM probe.note) FROM unnest($1::int[]) AS m"
);
buffer!(Unencodable, Messages, "INSERT INTO probe.note (tenant_id, id) SELECT 'acme', unnest($1::int[])");

async fn begin_on_new_database() -> (onceward_testkit::TestDb, onceward_db::Db, Tx) {
    let database = migrated().await;
    let db = connect(&database, 1);
    let tx = db.begin(tenant("acme")).await.expect("a connection");
    (database, db, tx)
}

#[tokio::test]
async fn records_are_written_before_messages_in_whatever_order_they_were_added() {
    let (database, _db, mut tx) = begin_on_new_database().await;
    tx.buffer(Messages::default).0.push(100);
    tx.buffer(Records::default).0.extend([1, 2]);
    tx.buffer(Messages::default).0.push(101);
    tx.commit().await.expect("it commits");
    let rows = database.owner().await.query("SELECT text FROM probe.note WHERE id >= 100", &[]).await.expect("rows");
    assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<&str>>(), ["2", "2"]);
}

#[tokio::test]
async fn a_savepoint_restores_each_buffer_separately() {
    let (_database, db, mut tx) = begin_on_new_database().await;
    tx.buffer(Messages::default).0.push(100);
    let point = tx.savepoint();
    tx.buffer(Records::default).0.push(1);
    tx.buffer(Messages::default).0.push(101);
    tx.rollback_to(point).await.expect("undone");
    tx.release(point);
    tx.buffer(Records::default).0.push(2);
    tx.commit().await.expect("it commits");
    assert_eq!(visible(&db, tenant("acme")).await, [2, 100]);
}

#[tokio::test]
async fn when_records_fail_the_error_is_returned_and_nothing_is_published() {
    let (_database, db, mut tx) = begin_on_new_database().await;
    note(&tx, 1).await.expect("a row");
    tx.buffer(Records::default).0.push(1);
    tx.buffer(Messages::default).0.push(100);
    let error = tx.commit().await.expect_err("there is such a note");
    assert_eq!(error.unique_violation(), Some("note_pkey"), "{error}");
    assert_eq!(visible(&db, tenant("acme")).await, [0; 0]);
}

#[tokio::test]
async fn when_messages_fail_nothing_is_recorded() {
    let (_database, db, mut tx) = begin_on_new_database().await;
    tx.buffer(Records::default).0.push(1);
    tx.buffer(Messages::default).0.extend([100, 100]);
    let error = tx.commit().await.expect_err("the same twice");
    assert_eq!(error.unique_violation(), Some("note_pkey"), "{error}");
    assert_eq!(visible(&db, tenant("acme")).await, [0; 0]);
}

#[tokio::test]
async fn a_statement_that_cannot_be_sent_is_not_followed_by_a_commit() {
    let (_database, db, mut tx) = begin_on_new_database().await;
    note(&tx, 1).await.expect("a row");
    tx.buffer(Records::default).0.push(2);
    tx.buffer(Unencodable::default).0.push(3);
    tx.commit().await.expect_err("numbers of another size");
    assert_eq!(visible(&db, tenant("acme")).await, [0; 0]);
}
