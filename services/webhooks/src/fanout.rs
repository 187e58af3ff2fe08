//! Creates one delivery per event and interested endpoint, in the transaction that settles the message.

use crate::{
    body::WebhookBody,
    store::{self, NewWebhookEvent},
};
use onceward::{Envelope, Failure, Tx, messaging::AnyHandler};

/// Handles events of every type: an event is passed on without being interpreted.
pub(crate) struct FanOut;

impl AnyHandler for FanOut {
    async fn handle_all(&self, tx: &mut Tx, batch: &[&Envelope]) -> Result<(), Failure> {
        if !store::has_endpoints(tx).await? {
            return Ok(());
        }
        let events: Vec<NewWebhookEvent> = batch
            .iter()
            .map(|envelope| NewWebhookEvent {
                event_id: envelope.event_id,
                event_type: envelope.event_type.to_string(),
                body: WebhookBody::new(envelope).to_json(),
                trace: envelope.trace.clone(),
            })
            .collect();
        if store::fan_out(tx, &events).await? > 0 {
            store::wake_senders(tx).await?;
        }
        Ok(())
    }
}
