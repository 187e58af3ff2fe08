//! Handling messages of every type, for consumers that pass on what they do not need to understand.

use super::handler::{ErasedHandler, Handed};
use crate::Failure;
use futures_util::future::BoxFuture;
use onceward_db::Tx;
use onceward_envelope::Envelope;
use std::future::Future;

/// Handles messages whatever their type, some of one tenant at once, within the transaction that settles them.
///
/// A message whose contract is known here still has to obey it; one without a contract is taken as it is. An error undoes
/// the whole batch, and its messages come again one at a time.
pub trait AnyHandler: Send + Sync {
    /// Does the work of all of `batch`, which is never empty.
    fn handle_all(&self, tx: &mut Tx, batch: &[&Envelope]) -> impl Future<Output = Result<(), Failure>> + Send;
}

pub(crate) struct Any<H>(pub H);

impl<H: AnyHandler> ErasedHandler for Any<H> {
    fn takes_many(&self) -> bool {
        true
    }

    fn handle<'a>(&'a self, tx: &'a mut Tx, handed: &'a [Handed<'a>]) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let batch: Vec<&Envelope> = handed.iter().map(|handed| &handed.delivery.envelope).collect();
            self.0.handle_all(tx, &batch).await
        })
    }
}
