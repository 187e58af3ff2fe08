//! From one event to one delivery for each endpoint that wants it, in the transaction that settles the message.

use crate::{
    body::Body,
    store::{self, NewEvent},
};
use onceward::{Envelope, Failure, Tx, messaging::AnyHandler};

/// Takes events of every type: what is passed on need not be understood.
pub(crate) struct FanOut;

impl AnyHandler for FanOut {
    async fn handle_all(&self, tx: &mut Tx, batch: &[&Envelope]) -> Result<(), Failure> {
        if !store::has_endpoints(tx).await? {
            return Ok(());
        }
        let events: Vec<NewEvent> = batch
            .iter()
            .map(|envelope| NewEvent {
                event_id: envelope.event_id,
                event_type: envelope.event_type.to_string(),
                body: Body::of(envelope).to_text(),
            })
            .collect();
        if store::fan_out(tx, &events).await? > 0 {
            store::wake(tx).await?;
        }
        Ok(())
    }
}
