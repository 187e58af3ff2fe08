//! Transactions that carry a tenant and an actor.
//!
//! A [`Tx`] saves round trips without any effort from its caller: `BEGIN` and the tenant are sent with the first
//! statement, and what was buffered for the end (records of what was done, messages to publish) is sent with `COMMIT`.
//!
//! Writing at the end is not only faster. Locks ensure that the order of a tenant's records, and of one key's messages,
//! equals the order of their commits. They are held only for the commit and are taken after every business lock, in one
//! order, so they cannot be part of a deadlock.

use crate::{
    CommitBuffer, CommitStage, Connection, DbError, Scope,
    pipeline::{PipelineError, pipeline},
};
use futures_util::{
    TryStreamExt,
    future::{BoxFuture, join},
};
use onceward_envelope::TenantId;
use parking_lot::{Mutex, MutexGuard};
use std::{
    any::Any,
    future::Future,
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio_postgres::{Row, types::ToSql};

/// A point to roll back to. Everything recorded and published after it is discarded with it.
#[derive(Clone, Copy, Debug)]
#[must_use = "release it or roll back to it"]
pub struct Savepoint {
    depth: u32,
    /// The length of each buffer at the savepoint.
    buffered: [usize; CommitStage::COUNT],
    /// The number of after-commit calls registered at the savepoint.
    after_commit: usize,
}

impl Savepoint {
    fn statement(self) -> String {
        format!("SAVEPOINT s{}", self.depth)
    }
}

/// An open transaction. Dropping it rolls it back, because its connection does not return to the pool inside a
/// transaction.
pub struct Tx {
    connection: Connection,
    scope: Scope,
    /// Statements to send ahead of the next one: `BEGIN`, the tenant, a savepoint.
    prelude: Mutex<Vec<String>>,
    started: AtomicBool,
    failed: AtomicBool,
    /// Why the server could not work, if a statement failed for that reason.
    impaired: OnceLock<&'static str>,
    savepoints: u32,
    /// The buffers, in the order of their stages.
    buffers: [Option<Box<dyn CommitBuffer>>; CommitStage::COUNT],
    after_commit: Vec<AfterCommit>,
    context: Option<Arc<dyn Any + Send + Sync>>,
}

type AfterCommit = Box<dyn FnOnce() + Send + Sync>;

impl Tx {
    pub(crate) fn new(
        client: deadpool_postgres::Object,
        scope: Scope,
        context: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Self {
        let prelude = Mutex::new(vec![scope.begin()]);
        Self {
            connection: Connection::new(client),
            scope,
            prelude,
            started: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            impaired: OnceLock::new(),
            savepoints: 0,
            buffers: [const { None }; CommitStage::COUNT],
            after_commit: Vec::new(),
            context,
        }
    }

    /// The scope this transaction runs in.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Returns the tenant. Fails if the transaction has none.
    pub fn tenant(&self) -> Result<&TenantId, DbError> {
        self.scope.tenant.as_ref().ok_or_else(|| {
            DbError::Config("this transaction belongs to no tenant; begin it with a tenant's scope".into())
        })
    }

    /// Switches to another scope. For the engine: a batch may contain messages of several tenants.
    pub fn enter(&mut self, scope: Scope) {
        if scope.tenant != self.scope.tenant || scope.actor != self.scope.actor {
            self.queue(&scope.settings());
        }
        self.scope = scope;
    }

    /// Runs a query and returns its rows.
    pub async fn query(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, DbError> {
        let connection = self.connection();
        self.after_prelude(async {
            let statement = connection.prepare(sql).await?;
            connection.run(&statement, params).await
        })
        .await
    }

    /// Runs a query and passes each row to the callback as it arrives, so that the rows are not all in memory at once.
    pub async fn query_each(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
        mut each: impl FnMut(Row),
    ) -> Result<(), DbError> {
        let connection = self.connection();
        self.after_prelude(async {
            let statement = connection.prepare(sql).await?;
            let rows = connection.client().query_raw(&statement, params.iter().copied()).await?;
            let mut rows = pin!(rows);
            while let Some(row) = rows.try_next().await? {
                each(row);
            }
            Ok(())
        })
        .await
    }

    /// Runs a query that returns exactly one row.
    pub async fn query_one(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<Row, DbError> {
        let connection = self.connection();
        self.after_prelude(async {
            let statement = connection.prepare(sql).await?;
            Ok(connection.client().query_one(&statement, params).await?)
        })
        .await
    }

    /// Runs a query that returns at most one row.
    pub async fn query_opt(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<Option<Row>, DbError> {
        let connection = self.connection();
        self.after_prelude(async {
            let statement = connection.prepare(sql).await?;
            Ok(connection.client().query_opt(&statement, params).await?)
        })
        .await
    }

    /// Runs a statement and returns the number of affected rows.
    pub async fn execute(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, DbError> {
        let connection = self.connection();
        self.after_prelude(async {
            let statement = connection.prepare(sql).await?;
            Ok(connection.client().execute(&statement, params).await?)
        })
        .await
    }

    /// Sets a savepoint; it is sent with the next statement.
    pub fn savepoint(&mut self) -> Savepoint {
        self.savepoints += 1;
        let buffered = self.buffers.each_ref().map(|buffer| buffer.as_ref().map_or(0, |buffer| buffer.len()));
        let savepoint = Savepoint { depth: self.savepoints, buffered, after_commit: self.after_commit.len() };
        self.queue(&savepoint.statement());
        savepoint
    }

    /// Rolls back everything since `savepoint`, including what was recorded and published. The savepoint remains.
    pub async fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), DbError> {
        for (buffer, len) in self.buffers.iter_mut().zip(savepoint.buffered) {
            if let Some(buffer) = buffer {
                buffer.truncate(len);
            }
        }
        self.after_commit.truncate(savepoint.after_commit);
        self.savepoints = savepoint.depth;
        if self.lock_prelude().contains(&savepoint.statement()) {
            // The savepoint was never sent, so nothing has happened since; earlier failures still stand.
            return Ok(());
        }
        self.lock_prelude().clear();
        // The rollback also undoes a tenant set since then, so it is set again.
        let sql = format!("ROLLBACK TO s{}; {}", savepoint.depth, self.scope.settings());
        self.connection().batch(&sql).await?;
        self.failed.store(false, Ordering::Release);
        self.connection().forget_unanswered();
        Ok(())
    }

    /// Releases `savepoint` and keeps everything since; it is sent with the next statement.
    pub fn release(&mut self, savepoint: Savepoint) {
        self.savepoints = savepoint.depth - 1;
        let mut prelude = self.lock_prelude();
        match prelude.iter().position(|sql| *sql == savepoint.statement()) {
            Some(unsent) => drop(prelude.remove(unsent)),
            None => prelude.push(format!("RELEASE s{}", savepoint.depth)),
        }
    }

    /// Returns the buffer of this kind, which is written with the commit. `new` creates it on first use.
    pub fn buffer<B: CommitBuffer + 'static>(&mut self, new: impl FnOnce() -> B) -> &mut B {
        self.buffers[B::stage() as usize]
            .get_or_insert_with(|| Box::new(new()))
            .as_any()
            .downcast_mut()
            .expect("a stage has one kind of commit buffer")
    }

    /// Registers a call that runs once the commit is durable. It never runs if the transaction, or the part since an
    /// earlier savepoint, is rolled back. For counters, which must not count work that was undone. The call must not
    /// block.
    pub fn after_commit(&mut self, call: impl FnOnce() + Send + Sync + 'static) {
        self.after_commit.push(Box::new(call));
    }

    /// Writes the buffers and commits, in one round trip. Fails with [`DbError::Aborted`] and writes nothing if a
    /// statement failed, or if its future was dropped before it was answered: PostgreSQL answers the `COMMIT` of an
    /// aborted transaction without an error.
    pub async fn commit(mut self) -> Result<(), DbError> {
        if self.has_failed() {
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
        }
        self.connection().ended();
        buffers.iter().flatten().for_each(|buffer| buffer.committed());
        std::mem::take(&mut self.after_commit).into_iter().for_each(|call| call());
        Ok(())
    }

    /// Sends the queued statements, the buffers and `COMMIT`, one after the other without waiting in between.
    async fn write_and_commit(&self, buffers: &[Option<Box<dyn CommitBuffer>>]) -> Result<(), DbError> {
        let connection = self.connection();
        let mut statements = Vec::with_capacity(buffers.len());
        for buffer in buffers.iter().flatten() {
            statements.push(self.record(connection.prepare(buffer.statement()).await)?);
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
        pipeline(operations).await.map_err(|error| match error {
            PipelineError::Unsent(error) => error,
            // COMMIT has been sent, so if the connection is lost before any of the responses, its outcome is unknown.
            PipelineError::Sent(error) => unknown_if_lost(error),
        })
    }

    /// Returns whether a statement failed since the last savepoint that was rolled back to, or may have failed because
    /// its future was dropped before it was answered. No further statement can succeed, and the transaction cannot be
    /// committed.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire) || self.connection().has_unanswered()
    }

    /// Returns the outage that caused a statement of this transaction to fail although the connection is alive: a full
    /// disk, a read-only server. A caller that counts attempts must not count this one.
    pub fn outage(&self) -> Option<DbError> {
        self.impaired.get().map(|reason| DbError::Unavailable((*reason).to_owned()))
    }

    /// Queues statements to be sent with the next one, or with the commit. For the engine: the text must not contain
    /// external input.
    pub fn queue_statements(&mut self, sql: &str) {
        self.queue(sql);
        self.started.store(true, Ordering::Release);
    }

    /// Returns what the runtime attached to the database handle: the publisher.
    pub fn context<C: Send + Sync + 'static>(&self) -> Option<Arc<C>> {
        self.context.clone()?.downcast().ok()
    }

    /// Rolls back immediately instead of on drop.
    pub async fn rollback(self) -> Result<(), DbError> {
        if self.started.load(Ordering::Acquire) {
            self.connection().batch("ROLLBACK").await?;
            self.connection().ended();
        }
        Ok(())
    }

    async fn end(&self, statements: &str) -> Result<(), DbError> {
        self.connection().batch(statements).await.map_err(unknown_if_lost)
    }

    fn connection(&self) -> &Connection {
        &self.connection
    }

    fn lock_prelude(&self) -> MutexGuard<'_, Vec<String>> {
        self.prelude.lock()
    }

    fn queue(&self, sql: &str) {
        self.lock_prelude().push(sql.to_owned());
    }

    /// Sends the queued statements and then `operation`, without waiting in between. Preparing is part of the
    /// operation: a statement that cannot be prepared aborts the transaction, and must do so after the savepoint that
    /// protects against it.
    async fn after_prelude<T>(&self, operation: impl Future<Output = Result<T, DbError>>) -> Result<T, DbError> {
        let prelude = std::mem::take(&mut *self.lock_prelude());
        let operation = self.connection().answered(operation);
        if prelude.is_empty() {
            return self.record(operation.await);
        }
        self.started.store(true, Ordering::Release);
        let (begun, result) = join(self.connection().batch(&prelude.join("; ")), operation).await;
        self.record(begun)?;
        self.record(result)
    }

    fn record<T>(&self, result: Result<T, DbError>) -> Result<T, DbError> {
        if let Err(error) = &result {
            self.failed.store(true, Ordering::Release);
            if let DbError::Impaired { reason, .. } = error {
                self.impaired.get_or_init(|| reason);
            }
        }
        result
    }
}

/// A connection that broke during a commit may have committed.
fn unknown_if_lost(error: DbError) -> DbError {
    if error.is_lost() { DbError::OutcomeUnknown } else { error }
}
