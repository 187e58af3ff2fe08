//! Entries wait in their transaction and are chained with its commit.

use crate::{AuditError, Entry, store};
use futures_util::future::BoxFuture;
use onceward_db::{CommitBuffer, Connection, DbError, Stage, Tx};
use onceward_envelope::{Clock, SystemClock};
use std::any::Any;
use tokio_postgres::Statement;

/// The most that one transaction may record; the server takes a message of a gigabyte at most.
const TRANSACTION_MAX_BYTES: usize = 64 << 20;

/// Records `entry` for the transaction's tenant, actor and request.
///
/// It is written right before the commit, in the same round trip, and is there exactly if the transaction commits. The
/// lock on the end of the tenant's chain is held for the commit alone. An entry recorded after a savepoint vanishes
/// when that is rolled back.
pub fn record(tx: &mut Tx, entry: Entry) -> Result<(), AuditError> {
    let document = entry.document(tx, SystemClock.now())?;
    let buffer = tx.buffer(Entries::default);
    if buffer.bytes + document.len() > TRANSACTION_MAX_BYTES {
        return Err(AuditError::TooMany { most_bytes: TRANSACTION_MAX_BYTES });
    }
    buffer.bytes += document.len();
    buffer.documents.push(document);
    Ok(())
}

/// The documents of one transaction.
#[derive(Default)]
struct Entries {
    documents: Vec<String>,
    bytes: usize,
}

impl CommitBuffer for Entries {
    fn stage() -> Stage {
        Stage::Records
    }

    fn len(&self) -> usize {
        self.documents.len()
    }

    fn truncate(&mut self, len: usize) {
        let forgotten: usize = self.documents.iter().skip(len).map(String::len).sum();
        self.documents.truncate(len);
        self.bytes -= forgotten;
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
