//! A pooled connection, and what is written with a commit.

use crate::DbError;
use futures_util::future::BoxFuture;
use std::any::Any;
use tokio_postgres::{Row, Statement, types::ToSql};

/// When a buffer is written, among those of one commit. The order is the same for everybody, so the locks that are
/// taken by it cannot deadlock. Each stage has one kind of buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// What was done, for the record.
    Records,
    /// What is published.
    Messages,
}

impl Stage {
    pub(crate) const COUNT: usize = 2;
}

/// Rows gathered during a transaction and written by one statement just before its commit.
pub trait CommitBuffer: Send + Sync {
    /// When it is written.
    fn stage() -> Stage
    where
        Self: Sized;
    /// How many entries are held; savepoints remember it.
    fn len(&self) -> usize;
    /// True when there is nothing to write.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Forgets everything after the first `len` entries: a savepoint was rolled back.
    fn truncate(&mut self, len: usize);
    /// The statement [`CommitBuffer::write`] will run.
    fn statement(&self) -> &'static str;
    /// Runs `statement`. It must be sent when first polled: `COMMIT` follows it on the wire.
    fn write<'a>(&'a self, connection: &'a Connection, statement: &'a Statement) -> BoxFuture<'a, Result<(), DbError>>;
    /// The commit is durable: wake whoever waits for it.
    fn committed(&self);
    /// For the owner to find its own kind again.
    fn as_any(&mut self) -> &mut dyn Any;
}

/// A connection taken from the pool.
pub struct Connection {
    pub(crate) client: deadpool_postgres::Object,
}

impl Connection {
    pub(crate) fn new(client: deadpool_postgres::Object) -> Self {
        Self { client }
    }

    /// Prepares `sql`, once per connection.
    pub async fn prepare(&self, sql: &'static str) -> Result<Statement, DbError> {
        Ok(self.client.prepare_cached(sql).await?)
    }

    /// Runs a prepared statement and gives its rows.
    pub async fn run(&self, statement: &Statement, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, DbError> {
        Ok(self.client.query(statement, params).await?)
    }

    /// Prepares, runs, gives the rows.
    pub async fn query(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, DbError> {
        let statement = self.prepare(sql).await?;
        self.run(&statement, params).await
    }

    /// Runs statements without parameters or results, in one round trip.
    pub async fn batch(&self, sql: &str) -> Result<(), DbError> {
        Ok(self.client.batch_execute(sql).await?)
    }
}
