//! Handling messages of every type, for consumers that forward messages without interpreting them.

use super::handler::{ErasedHandler, HandlerInput};
use crate::Failure;
use futures_util::future::BoxFuture;
use onceward_db::Tx;
use onceward_envelope::Envelope;
use std::future::Future;

/// Handles messages of any type, several of one tenant at once, within the transaction that settles them.
///
/// A message with a known contract must still satisfy it; one without a contract is accepted as it is. An error undoes
/// the whole batch, and its messages are delivered again one at a time.
pub trait AnyHandler: Send + Sync {
    /// Handles all of `batch`, which is never empty.
    fn handle_all(&self, tx: &mut Tx, batch: &[&Envelope]) -> impl Future<Output = Result<(), Failure>> + Send;
}

pub(crate) struct UntypedHandler<H>(pub H);

impl<H: AnyHandler> ErasedHandler for UntypedHandler<H> {
    fn takes_many(&self) -> bool {
        true
    }

    fn handle<'a>(&'a self, tx: &'a mut Tx, inputs: &'a [HandlerInput<'a>]) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let batch: Vec<&Envelope> = inputs.iter().map(|input| &input.delivery.envelope).collect();
            self.0.handle_all(tx, &batch).await
        })
    }
}
