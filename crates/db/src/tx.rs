//! Transactions that carry a tenant and an actor.
//!
//! A [`Tx`] saves round trips without asking its caller to think of it: `BEGIN` and the tenant
//! travel with the first statement, and what was buffered for the end (records of what was done,
//! messages to publish) travels with `COMMIT`.
//!
//! Writing at the end is not only faster. The locks that make the order of a tenant's records, and
//! of one key's messages, equal the order of their commits are held for the commit alone, and they
//! are taken after every business lock, in one order, so they cannot be part of a deadlock.

use crate::{
    CommitBuffer, Connection, DbError, Scope, Stage,
    pipeline::{Broken, pipeline},
};
use futures_util::{
    TryStreamExt,
    future::{BoxFuture, join},
};
use onceward_envelope::TenantId;
use std::{
    any::Any,
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio_postgres::{Row, types::ToSql};

/// A point to return to. What was recorded and published after it is forgotten with it.
#[derive(Clone, Copy, Debug)]
#[must_use = "release it or roll back to it"]
pub struct Savepoint {
    depth: u32,
    /// How much each buffer held.
    buffered: [usize; Stage::COUNT],
}

impl Savepoint {
    fn statement(self) -> String {
        format!("SAVEPOINT s{}", self.depth)
    }
}

/// An open transaction. Dropping it rolls it back.
pub struct Tx {
    connection: Option<Connection>,
    scope: Scope,
    /// Statements to send ahead of the next one: `BEGIN`, the tenant, a savepoint.
    prelude: Mutex<Vec<String>>,
    started: AtomicBool,
    failed: AtomicBool,
    savepoints: u32,
    /// In the order of their stages.
    buffers: [Option<Box<dyn CommitBuffer>>; Stage::COUNT],
    context: Option<Arc<dyn Any + Send + Sync>>,
}

impl Tx {
    pub(crate) fn new(
        client: deadpool_postgres::Object,
        scope: Scope,
        context: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Self {
        let prelude = Mutex::new(vec!["BEGIN".to_owned(), scope.settings()]);
        Self {
            connection: Some(Connection::new(client)),
            scope,
            prelude,
            started: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            savepoints: 0,
            buffers: [const { None }; Stage::COUNT],
            context,
        }
    }

    /// On whose behalf this runs.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The tenant, or an error for work that has none.
    pub fn tenant(&self) -> Result<&TenantId, DbError> {
        self.scope.tenant.as_ref().ok_or_else(|| {
            DbError::Config("this transaction belongs to no tenant; begin it with a tenant's scope".into())
        })
    }

    /// Goes on for another scope. Engine use: a batch may hold messages of several tenants.
    pub fn enter(&mut self, scope: Scope) {
        if scope.tenant != self.scope.tenant || scope.actor != self.scope.actor {
            self.queue(&scope.settings());
        }
        self.scope = scope;
    }

    /// Runs a query and gives its rows.
    pub async fn query(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, DbError> {
        let connection = self.connection();
        self.after_prelude(async {
            let statement = connection.prepare(sql).await?;
            connection.run(&statement, params).await
        })
        .await
    }

    /// Runs a query and hands over its rows as they come: many are not in memory together.
    pub async fn query_each(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
        mut each: impl FnMut(Row),
    ) -> Result<(), DbError> {
        let connection = self.connection();
        self.after_prelude(async {
            let statement = connection.prepare(sql).await?;
            let rows = connection.client.query_raw(&statement, params.iter().copied()).await?;
            let mut rows = pin!(rows);
            while let Some(row) = rows.try_next().await? {
                each(row);
            }
            Ok(())
        })
        .await
    }

    /// Runs a query that gives exactly one row.
    pub async fn query_one(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<Row, DbError> {
        let connection = self.connection();
        self.after_prelude(async {
            let statement = connection.prepare(sql).await?;
            Ok(connection.client.query_one(&statement, params).await?)
        })
        .await
    }

    /// Runs a query that gives one row or none.
    pub async fn query_opt(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<Option<Row>, DbError> {
        let connection = self.connection();
        self.after_prelude(async {
            let statement = connection.prepare(sql).await?;
            Ok(connection.client.query_opt(&statement, params).await?)
        })
        .await
    }

    /// Runs a statement and tells how many rows it touched.
    pub async fn execute(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, DbError> {
        let connection = self.connection();
        self.after_prelude(async {
            let statement = connection.prepare(sql).await?;
            Ok(connection.client.execute(&statement, params).await?)
        })
        .await
    }

    /// Sets a savepoint, with the next statement.
    pub fn savepoint(&mut self) -> Savepoint {
        self.savepoints += 1;
        let buffered = self.buffers.each_ref().map(|buffer| buffer.as_ref().map_or(0, |buffer| buffer.len()));
        let savepoint = Savepoint { depth: self.savepoints, buffered };
        self.queue(&savepoint.statement());
        savepoint
    }

    /// Undoes everything since `savepoint`, also what was recorded and published; the savepoint remains.
    pub async fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), DbError> {
        for (buffer, len) in self.buffers.iter_mut().zip(savepoint.buffered) {
            if let Some(buffer) = buffer {
                buffer.truncate(len);
            }
        }
        self.savepoints = savepoint.depth;
        if self.lock_prelude().contains(&savepoint.statement()) {
            // Never sent, so nothing has happened since.
            self.failed.store(false, Ordering::Release);
            return Ok(());
        }
        self.lock_prelude().clear();
        // The tenant set since then is undone as well, so it is set again.
        let sql = format!("ROLLBACK TO s{}; {}", savepoint.depth, self.scope.settings());
        self.connection().batch(&sql).await?;
        self.failed.store(false, Ordering::Release);
        Ok(())
    }

    /// Keeps everything since `savepoint`, with the next statement.
    pub fn release(&mut self, savepoint: Savepoint) {
        self.savepoints = savepoint.depth - 1;
        let mut prelude = self.lock_prelude();
        match prelude.iter().position(|sql| *sql == savepoint.statement()) {
            Some(unsent) => drop(prelude.remove(unsent)),
            None => prelude.push(format!("RELEASE s{}", savepoint.depth)),
        }
    }

    /// The buffer of this kind that is written with the commit, made by `new` at first use.
    pub fn buffer<B: CommitBuffer + 'static>(&mut self, new: impl FnOnce() -> B) -> &mut B {
        self.buffers[B::stage() as usize]
            .get_or_insert_with(|| Box::new(new()))
            .as_any()
            .downcast_mut()
            .expect("a stage has one kind of commit buffer")
    }

    /// Writes what is buffered and commits, in one round trip.
    pub async fn commit(mut self) -> Result<(), DbError> {
        if self.failed.load(Ordering::Acquire) {
            return Err(DbError::Aborted);
        }
        let buffers = std::mem::take(&mut self.buffers).map(|buffer| buffer.filter(|buffer| !buffer.is_empty()));
        if buffers.iter().any(Option::is_some) {
            self.write_and_commit(&buffers).await?;
        } else if self.started.load(Ordering::Acquire) {
            self.queue("COMMIT");
            let statements = std::mem::take(&mut *self.lock_prelude());
            self.end(&statements.join("; ")).await?;
        } else {
            self.lock_prelude().clear();
            return Ok(());
        }
        self.started.store(false, Ordering::Release);
        buffers.iter().flatten().for_each(|buffer| buffer.committed());
        Ok(())
    }

    /// Sends what is queued, the buffers and `COMMIT`, one behind the other.
    async fn write_and_commit(&self, buffers: &[Option<Box<dyn CommitBuffer>>]) -> Result<(), DbError> {
        let connection = self.connection();
        let mut statements = Vec::with_capacity(buffers.len());
        for buffer in buffers.iter().flatten() {
            statements.push(self.note(connection.prepare(buffer.statement()).await)?);
        }
        let prelude = std::mem::take(&mut *self.lock_prelude()).join("; ");
        let mut operations: Vec<BoxFuture<'_, _>> = Vec::with_capacity(buffers.len() + 2);
        if !prelude.is_empty() {
            self.started.store(true, Ordering::Release);
            operations.push(Box::pin(connection.batch(&prelude)));
        }
        let written = buffers.iter().flatten().zip(&statements);
        operations.extend(written.map(|(buffer, statement)| buffer.write(connection, statement)));
        operations.push(Box::pin(self.end("COMMIT")));
        pipeline(operations).await.map_err(|broken| match broken {
            Broken::Unsent(error) => error,
            // COMMIT is on its way, so a connection lost before any of the answers leaves it open.
            Broken::Sent(error) => unknown_if_lost(error),
        })
    }

    /// A statement failed since the last savepoint that was returned to, so nothing more can succeed.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Queues statements to travel with the next one, or with the commit. Engine use: the text must
    /// hold no foreign input.
    pub fn queue_statements(&mut self, sql: &str) {
        self.queue(sql);
        self.started.store(true, Ordering::Release);
    }

    /// What the runtime attached to the database handle: the publisher.
    pub fn context<C: Send + Sync + 'static>(&self) -> Option<Arc<C>> {
        self.context.clone()?.downcast().ok()
    }

    /// Undoes everything now instead of when dropped.
    pub async fn rollback(self) -> Result<(), DbError> {
        if self.started.swap(false, Ordering::AcqRel) {
            self.connection().batch("ROLLBACK").await?;
        }
        Ok(())
    }

    async fn end(&self, statements: &str) -> Result<(), DbError> {
        self.connection().batch(statements).await.map_err(unknown_if_lost)
    }

    fn connection(&self) -> &Connection {
        self.connection.as_ref().expect("the connection is there until the transaction is dropped")
    }

    fn lock_prelude(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.prelude.lock().expect("no panic while held")
    }

    fn queue(&self, sql: &str) {
        self.lock_prelude().push(sql.to_owned());
    }

    /// Sends what is queued and then `operation`, without waiting in between. Preparing belongs to
    /// the operation: a statement that cannot be prepared aborts the transaction, and must do so
    /// after the savepoint that is to save it.
    async fn after_prelude<T>(&self, operation: impl Future<Output = Result<T, DbError>>) -> Result<T, DbError> {
        let prelude = std::mem::take(&mut *self.lock_prelude());
        if prelude.is_empty() {
            return self.note(operation.await);
        }
        self.started.store(true, Ordering::Release);
        let (begun, result) = join(self.connection().batch(&prelude.join("; ")), operation).await;
        self.note(begun)?;
        self.note(result)
    }

    fn note<T>(&self, result: Result<T, DbError>) -> Result<T, DbError> {
        if result.is_err() {
            self.failed.store(true, Ordering::Release);
        }
        result
    }
}

/// A connection that broke while a commit was under way may have committed.
fn unknown_if_lost(error: DbError) -> DbError {
    if error.is_unavailable() { DbError::OutcomeUnknown } else { error }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if !self.started.load(Ordering::Acquire) {
            return;
        }
        let Some(connection) = self.connection.take() else {
            return;
        };
        match tokio::runtime::Handle::try_current() {
            // The connection goes back to the pool only once it is clean.
            Ok(runtime) => {
                crate::undo::note(runtime.spawn(async move {
                    if connection.batch("ROLLBACK").await.is_err() {
                        drop(deadpool_postgres::Object::take(connection.client));
                    }
                }));
            }
            Err(_) => drop(deadpool_postgres::Object::take(connection.client)),
        }
    }
}
