//! A pooled connection, and the buffers that are written with a commit.

use crate::DbError;
use futures_util::future::BoxFuture;
use std::{
    any::Any,
    future::Future,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    time::Duration,
};
use tokio_postgres::{Row, Statement, types::ToSql};

/// A rollback waits for the preceding statement, which the server ends after its own timeout. A server that takes
/// longer than this to confirm has lost the session.
const ROLLBACK_TIMEOUT: Duration = Duration::from_secs(60);

/// When a buffer is written, relative to the other buffers of the commit. The order is the same in every transaction,
/// so the locks taken while writing cannot deadlock. Each stage has one kind of buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitStage {
    /// Records of what was done.
    Records,
    /// Messages to publish.
    Messages,
}

impl CommitStage {
    pub(crate) const COUNT: usize = 2;
}

/// Rows collected during a transaction and written by one statement just before its commit.
pub trait CommitBuffer: Send + Sync {
    /// The stage at which the buffer is written.
    fn stage() -> CommitStage
    where
        Self: Sized;
    /// Returns the number of buffered entries; savepoints remember it.
    fn len(&self) -> usize;
    /// Returns `true` if the buffer has nothing to write.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Drops everything after the first `len` entries, because a savepoint was rolled back.
    fn truncate(&mut self, len: usize);
    /// The statement that [`CommitBuffer::write`] runs.
    fn statement(&self) -> &'static str;
    /// Runs `statement`. It must be sent when first polled: `COMMIT` follows it on the wire.
    fn write<'a>(&'a self, connection: &'a Connection, statement: &'a Statement) -> BoxFuture<'a, Result<(), DbError>>;
    /// Called once the commit is durable, to wake the readers of what was written.
    fn committed(&self);
    /// Lets the owner downcast to its own buffer type.
    fn as_any(&mut self) -> &mut dyn Any;
}

/// A connection taken from the pool.
///
/// It returns to the pool only when it is clean: outside any transaction, and with every statement answered. A
/// connection that is dropped in any other state is rolled back first, and closed if that fails. Plain connections
/// cannot begin a transaction; only [`crate::Tx`] can.
pub struct Connection {
    /// `None` only while the connection is being dropped.
    client: Option<deadpool_postgres::Object>,
    /// Whether a transaction may be open.
    in_transaction: AtomicBool,
    /// Statements that were sent but whose response was not received, because their futures are pending or were
    /// dropped.
    unanswered: AtomicU32,
}

impl Connection {
    pub(crate) fn new(client: deadpool_postgres::Object) -> Self {
        Self { client: Some(client), in_transaction: AtomicBool::new(false), unanswered: AtomicU32::new(0) }
    }

    /// Prepares `sql` once per connection. Statements that begin or end a transaction are refused.
    pub async fn prepare(&self, sql: &'static str) -> Result<Statement, DbError> {
        if controls_transaction(sql) {
            return Err(DbError::Config(format!(
                "\"{}\" begins or ends a transaction; use Db::begin and the methods of Tx instead",
                sql.trim()
            )));
        }
        Ok(self.answered(self.client().prepare_cached(sql)).await?)
    }

    /// Runs a prepared statement and returns its rows.
    pub async fn run(&self, statement: &Statement, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, DbError> {
        Ok(self.answered(self.client().query(statement, params)).await?)
    }

    /// Prepares and runs `sql`, and returns its rows.
    pub async fn query(&self, sql: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, DbError> {
        let statement = self.prepare(sql).await?;
        self.run(&statement, params).await
    }

    /// Runs statements of a transaction, including its `BEGIN` and `COMMIT`, in one round trip. The connection counts
    /// as being in a transaction from this call until [`Connection::ended`].
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), DbError> {
        self.in_transaction.store(true, Ordering::Release);
        Ok(self.answered(self.client().batch_execute(sql)).await?)
    }

    /// Records that the server has confirmed the end of the transaction.
    pub(crate) fn ended(&self) {
        self.in_transaction.store(false, Ordering::Release);
        self.forget_unanswered();
    }

    /// Clears the count of unanswered statements: a later statement was answered, so the server has finished all before
    /// it.
    pub(crate) fn forget_unanswered(&self) {
        self.unanswered.store(0, Ordering::Release);
    }

    /// Returns whether the future of a statement was dropped before its response arrived, so that its outcome is
    /// unknown.
    pub(crate) fn has_unanswered(&self) -> bool {
        self.unanswered.load(Ordering::Acquire) > 0
    }

    /// Awaits `operation`, which counts as unanswered until it completes.
    pub(crate) async fn answered<T>(&self, operation: impl Future<Output = T>) -> T {
        self.unanswered.fetch_add(1, Ordering::AcqRel);
        let answer = operation.await;
        self.unanswered.fetch_sub(1, Ordering::AcqRel);
        answer
    }

    pub(crate) fn client(&self) -> &deadpool_postgres::Object {
        self.client.as_ref().expect("the client is there until the connection is dropped")
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else {
            return;
        };
        if !self.in_transaction.load(Ordering::Acquire) && !self.has_unanswered() {
            return;
        }
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => crate::rollbacks::add(runtime.spawn(roll_back(client))),
            Err(_) => drop(deadpool_postgres::Object::take(client)),
        }
    }
}

/// Rolls back and returns the client to the pool, or closes it if the server does not confirm in time.
async fn roll_back(client: deadpool_postgres::Object) {
    let rolled_back = tokio::time::timeout(ROLLBACK_TIMEOUT, client.batch_execute("ROLLBACK")).await;
    if !matches!(rolled_back, Ok(Ok(()))) {
        drop(deadpool_postgres::Object::take(client));
    }
}

/// Returns whether `sql` is a command that begins or ends a transaction or savepoint.
fn controls_transaction(sql: &str) -> bool {
    const COMMANDS: [&str; 8] = ["BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE"];
    let sql = skip_comments(sql);
    let word = &sql[..sql.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(sql.len())];
    COMMANDS.iter().any(|command| word.eq_ignore_ascii_case(command))
}

/// Returns `sql` from its first command on.
fn skip_comments(mut sql: &str) -> &str {
    loop {
        sql = sql.trim_start_matches(|letter: char| letter.is_whitespace() || letter == ';');
        sql = match sql.get(..2) {
            Some("--") => sql.find('\n').map_or("", |end| &sql[end..]),
            Some("/*") => &sql[block_comment(sql)..],
            _ => return sql,
        };
    }
}

/// Returns the length of the block comment at the start of `sql`. Block comments nest.
fn block_comment(sql: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(found) = sql[at..].find(['/', '*']) {
        at += found;
        match sql.get(at..at + 2) {
            Some("/*") => (depth, at) = (depth + 1, at + 2),
            Some("*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    sql.len()
}

#[cfg(test)]
mod tests {
    use super::controls_transaction;

    #[test]
    fn comments_before_a_command_do_not_hide_it() {
        for sql in ["-- x\nBEGIN", "/* a /* b */ c */ commit", " ; -- x\r\n/**/--y\n  ROLLBACK", "/*/ */ BEGIN"] {
            assert!(controls_transaction(sql), "{sql}");
        }
        for sql in
            ["-- BEGIN", "/* BEGIN */ SELECT 1", "/* BEGIN", "-- x\nSELECT 1 -- \nBEGIN", "/* /* */ BEGIN", "/", "/* ß"]
        {
            assert!(!controls_transaction(sql), "{sql}");
        }
    }

    #[test]
    fn commands_that_control_a_transaction_are_known_by_their_first_word() {
        for sql in ["BEGIN", "  begin; SELECT 1", "\n    Commit", "ROLLBACK TO s1", "START TRANSACTION", "end"] {
            assert!(controls_transaction(sql), "{sql}");
        }
        for sql in ["SELECT 'BEGIN'", "SET LOCAL x = 'y'", "WITH begin AS (SELECT 1) SELECT 1", "", "BEGINNING"] {
            assert!(!controls_transaction(sql), "{sql}");
        }
    }
}
