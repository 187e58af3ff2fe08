//! Entries are buffered in their transaction and chained at its commit.

use crate::{AuditError, Entry, store};
use futures_util::future::BoxFuture;
use onceward_db::{CommitBuffer, CommitStage, Connection, DbError, Scope, Tx};
use onceward_envelope::{Clock, SystemClock};
use std::any::Any;
use tokio_postgres::Statement;

/// The maximum size of the entries of one transaction; the server accepts messages of a gigabyte at most.
const TRANSACTION_MAX_BYTES: usize = 64 << 20;

/// Records `entry` for the transaction's tenant, actor and request.
///
/// It is written right before the commit, in the same round trip, and exists exactly if the transaction commits. The
/// lock on the end of the tenant's chain is held only during the commit. An entry recorded after a savepoint is
/// discarded when that is rolled back. Fails if the entry is invalid or the transaction's entries become too large.
pub fn record(tx: &mut Tx, entry: Entry) -> Result<(), AuditError> {
    let document = entry.document(tx.scope(), SystemClock.now())?;
    append(tx, document)
}

/// Records `entry` like [`record`], for the actor and request of `scope` instead of the transaction's: in a batch, each
/// entry has its own cause. Both must belong to the same tenant.
pub fn record_as(tx: &mut Tx, scope: &Scope, entry: Entry) -> Result<(), AuditError> {
    let document = entry.document(scope, SystemClock.now())?;
    append(tx, document)
}

fn append(tx: &mut Tx, document: String) -> Result<(), AuditError> {
    let buffer = tx.buffer(EntryBuffer::default);
    if buffer.bytes + document.len() > TRANSACTION_MAX_BYTES {
        return Err(AuditError::TooMany { most_bytes: TRANSACTION_MAX_BYTES });
    }
    buffer.bytes += document.len();
    buffer.documents.push(document);
    Ok(())
}

/// The documents of one transaction.
#[derive(Default)]
struct EntryBuffer {
    documents: Vec<String>,
    bytes: usize,
}

impl CommitBuffer for EntryBuffer {
    fn stage() -> CommitStage {
        CommitStage::Records
    }

    fn len(&self) -> usize {
        self.documents.len()
    }

    fn truncate(&mut self, len: usize) {
        let dropped: usize = self.documents.iter().skip(len).map(String::len).sum();
        self.documents.truncate(len);
        self.bytes -= dropped;
    }

    fn statement(&self) -> &'static str {
        store::APPEND
    }

    fn write<'a>(&'a self, connection: &'a Connection, statement: &'a Statement) -> BoxFuture<'a, Result<(), DbError>> {
        Box::pin(async move { connection.run(statement, &[&self.documents]).await.map(drop) })
    }

    fn committed(&self) {}

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
