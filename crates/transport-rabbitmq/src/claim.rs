//! One reader a queue, and in the right order when another takes over.
//!
//! RabbitMQ has exclusive consumers, but not on quorum queues, where it takes the wish and ignores it. What it does keep
//! is an exclusive *queue*: no other connection can use one, and it goes with the connection that made it. So who wants
//! to read `q` exclusively first makes the exclusive queue `onceward.reading.q` and consumes from it, so that it also goes
//! with the channel. Whoever cannot make it is too late.
//!
//! A reader's claim can be gone a moment before the broker has taken back what the reader had in hand. A new reader that
//! begins in that moment is handed later messages first. So it waits until the queue has no readers.

use crate::{
    connection::Wire,
    locked,
    trouble::{NOT_FOUND, RESOURCE_LOCKED, Trouble},
};
use lapin::{
    Channel, Consumer,
    options::{BasicConsumeOptions, QueueDeclareOptions},
    types::FieldTable,
};
use onceward_transport::BrokerError;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use uuid::Uuid;

const PREFIX: &str = "onceward.reading.";
const NAME_BYTES_MAX: usize = 255;
/// How long a reader whose claim is gone may take to go itself.
const LEAVING: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The right to read a queue, for as long as it is held and its channel lasts.
pub(crate) struct Claim {
    ours: Ours,
    channel: Channel,
    /// Consumes nothing. With it goes the claim's queue.
    _consumer: Consumer,
}

impl Claim {
    /// Claims `queue`, or says that somebody else has it. Those who are in the way for longer than `limit` are looked at.
    pub(crate) async fn new(
        wire: &Arc<Wire>,
        queue: &str,
        patience: &Patience,
        limit: Duration,
    ) -> Result<Self, BrokerError> {
        let ours = Ours::new(wire, queue)?;
        let channel = wire.channel().await?;
        // A claim that fails costs a line in the broker's log, and those who wait ask often: so look first.
        if readers(wire, &channel, queue).await? > 0 && !patience.is_over(queue, limit) {
            return Err(BrokerError::Taken(queue.to_owned()));
        }
        let name = claim_name(queue);
        let made = async {
            let options = QueueDeclareOptions { exclusive: true, auto_delete: true, ..QueueDeclareOptions::default() };
            channel.queue_declare(name.as_str().into(), options, FieldTable::default()).await?;
            let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
            channel.basic_consume(name.as_str().into(), "".into(), options, FieldTable::default()).await
        };
        match wire.ask(made).await {
            Ok(consumer) => {
                patience.reset(queue);
                Ok(Self { ours, channel, _consumer: consumer })
            }
            Err(Trouble::Told { code: RESOURCE_LOCKED | NOT_FOUND, .. }) => Err(BrokerError::Taken(queue.to_owned())),
            Err(trouble) => Err(trouble.into()),
        }
    }

    pub(crate) fn holds_on(&self, wire: &Arc<Wire>) -> bool {
        Arc::ptr_eq(&self.ours.wire, wire) && self.channel.status().connected()
    }

    /// Waits until the reader before us is gone, which may have been ourselves.
    pub(crate) async fn wait_for_predecessor(&self) -> Result<(), BrokerError> {
        let Ours { wire, queue } = &self.ours;
        let since = Instant::now();
        while readers(wire, &self.channel, queue).await? > 0 {
            if since.elapsed() > LEAVING {
                // Somebody who makes no claims; or one on a node that is down, whose messages have been taken back.
                tracing::warn!(queue, "somebody else reads this queue without a claim to it: order is not certain");
                break;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}

/// Over one connection an exclusive queue can be made twice, so there we keep count ourselves.
struct Ours {
    wire: Arc<Wire>,
    queue: String,
}

impl Ours {
    fn new(wire: &Arc<Wire>, queue: &str) -> Result<Self, BrokerError> {
        let free = locked(&wire.reading).insert(queue.to_owned());
        if free {
            Ok(Self { wire: wire.clone(), queue: queue.to_owned() })
        } else {
            Err(BrokerError::Taken(queue.to_owned()))
        }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        locked(&self.wire.reading).remove(&self.queue);
    }
}

/// Who has had to wait for which queue, and since when.
#[derive(Default)]
pub(crate) struct Patience(Mutex<HashMap<String, Instant>>);

impl Patience {
    /// Readers are in the way. `true`: for longer than `limit`, so that it is time to find out who they are.
    fn is_over(&self, queue: &str, limit: Duration) -> bool {
        let mut waiting = locked(&self.0);
        let over = waiting.entry(queue.to_owned()).or_insert_with(Instant::now).elapsed() > limit;
        if over {
            waiting.remove(queue);
        }
        over
    }

    fn reset(&self, queue: &str) {
        locked(&self.0).remove(queue);
    }
}

async fn readers(wire: &Wire, channel: &Channel, queue: &str) -> Result<u32, BrokerError> {
    let options = QueueDeclareOptions::default().passive();
    match wire.ask(channel.queue_declare(queue.into(), options, FieldTable::default())).await {
        Ok(found) => Ok(found.consumer_count()),
        Err(trouble) if trouble.has_code(NOT_FOUND) => Err(BrokerError::Missing(format!("queue \"{queue}\""))),
        Err(trouble) => Err(trouble.into()),
    }
}

fn claim_name(queue: &str) -> String {
    if PREFIX.len() + queue.len() <= NAME_BYTES_MAX {
        format!("{PREFIX}{queue}")
    } else {
        format!("{PREFIX}{}", Uuid::new_v5(&Uuid::NAMESPACE_OID, queue.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_named_after_its_queue_as_far_as_that_fits() {
        assert_eq!(claim_name("q.payments.post"), "onceward.reading.q.payments.post");
        let (one, other) = (claim_name(&"q".repeat(255)), claim_name(&"r".repeat(255)));
        assert!(one.len() <= NAME_BYTES_MAX && one != other, "{one} {other}");
    }

    #[test]
    fn patience_ends_and_begins_anew() {
        let patience = Patience::default();
        assert!(!patience.is_over("q", Duration::from_secs(60)));
        assert!(patience.is_over("q", Duration::ZERO));
        assert!(!patience.is_over("q", Duration::from_secs(60)));
    }
}
