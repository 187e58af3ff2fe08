//! One reader per queue, and message order across a handover.
//!
//! RabbitMQ has exclusive consumers, but quorum queues accept the flag and ignore it. Exclusive *queues* do work: no other
//! connection can use one, and it is deleted with the connection that created it. So a reader that wants `q` exclusively
//! first creates the exclusive, auto-delete queue `onceward.reading.q` and consumes from it, so that it is deleted with
//! the channel, too. A reader that cannot create it does not get the lock.
//!
//! A lock can be released a moment before the broker has returned the previous reader's unacknowledged messages. A new
//! reader that starts in that moment would receive later messages first, so it waits until the queue has no consumers.

use crate::{
    connection::AmqpConnection,
    error::{AmqpError, NOT_FOUND, RESOURCE_LOCKED},
};
use lapin::{
    Channel, Consumer,
    options::{BasicConsumeOptions, QueueDeclareOptions},
    types::FieldTable,
};
use onceward_broker::BrokerError;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};
use uuid::Uuid;

const LOCK_QUEUE_PREFIX: &str = "onceward.reading.";
const NAME_BYTES_MAX: usize = 255;
/// How long the previous reader's consumer may remain after its lock is released.
const PREDECESSOR_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The exclusive right to read a queue, for as long as this value and its channel live.
pub(crate) struct ReaderLock {
    reservation: Reservation,
    channel: Channel,
    /// Consumes nothing. When it ends, RabbitMQ deletes the lock's queue.
    _consumer: Consumer,
}

impl ReaderLock {
    /// Locks `queue`, or fails with [`BrokerError::Taken`]. Does not try while the queue has consumers, unless they have
    /// blocked it for longer than `limit`: then they may not hold the lock.
    pub(crate) async fn new(
        connection: &Arc<AmqpConnection>,
        queue: &str,
        blocked: &BlockedQueues,
        limit: Duration,
    ) -> Result<Self, BrokerError> {
        let reservation = Reservation::new(connection, queue)?;
        let channel = connection.channel().await?;
        // A failed attempt costs a line in the broker's log, and waiting readers retry often, so check the consumers first.
        if consumer_count(connection, &channel, queue).await? > 0 && !blocked.is_longer_than(queue, limit) {
            return Err(BrokerError::Taken(queue.to_owned()));
        }
        let name = lock_queue_name(queue);
        let locking = async {
            let options = QueueDeclareOptions { exclusive: true, auto_delete: true, ..QueueDeclareOptions::default() };
            channel.queue_declare(name.as_str().into(), options, FieldTable::default()).await?;
            let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
            channel.basic_consume(name.as_str().into(), "".into(), options, FieldTable::default()).await
        };
        match connection.call(locking).await {
            Ok(consumer) => {
                blocked.reset(queue);
                Ok(Self { reservation, channel, _consumer: consumer })
            }
            Err(AmqpError::Closed { code: RESOURCE_LOCKED | NOT_FOUND, .. }) => {
                Err(BrokerError::Taken(queue.to_owned()))
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn is_held_on(&self, connection: &Arc<AmqpConnection>) -> bool {
        Arc::ptr_eq(&self.reservation.connection, connection) && self.channel.status().connected()
    }

    /// Waits until the previous reader's consumer is gone, which may have been our own.
    pub(crate) async fn wait_for_predecessor(&self) -> Result<(), BrokerError> {
        let Reservation { connection, queue } = &self.reservation;
        let since = Instant::now();
        while consumer_count(connection, &self.channel, queue).await? > 0 {
            if since.elapsed() > PREDECESSOR_TIMEOUT {
                // A consumer that takes no lock; or one on a node that is down, whose messages have been returned.
                tracing::warn!(
                    queue,
                    "another consumer reads this queue without the reader lock: message order is not guaranteed"
                );
                break;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }
}

/// One connection can declare an exclusive queue twice, so readers that share a connection are counted here.
struct Reservation {
    connection: Arc<AmqpConnection>,
    queue: String,
}

impl Reservation {
    fn new(connection: &Arc<AmqpConnection>, queue: &str) -> Result<Self, BrokerError> {
        let free = connection.reserved_queues.lock().insert(queue.to_owned());
        if free {
            Ok(Self { connection: connection.clone(), queue: queue.to_owned() })
        } else {
            Err(BrokerError::Taken(queue.to_owned()))
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.connection.reserved_queues.lock().remove(&self.queue);
    }
}

/// The queues that other consumers block, and since when.
#[derive(Default)]
pub(crate) struct BlockedQueues(Mutex<HashMap<String, Instant>>);

impl BlockedQueues {
    /// Records that consumers block the queue. Returns whether they have for longer than `limit`; the next call starts anew.
    fn is_longer_than(&self, queue: &str, limit: Duration) -> bool {
        let mut waiting = self.0.lock();
        let over = waiting.entry(queue.to_owned()).or_insert_with(Instant::now).elapsed() > limit;
        if over {
            waiting.remove(queue);
        }
        over
    }

    fn reset(&self, queue: &str) {
        self.0.lock().remove(queue);
    }
}

async fn consumer_count(connection: &AmqpConnection, channel: &Channel, queue: &str) -> Result<u32, BrokerError> {
    let options = QueueDeclareOptions::default().passive();
    match connection.call(channel.queue_declare(queue.into(), options, FieldTable::default())).await {
        Ok(found) => Ok(found.consumer_count()),
        Err(error) if error.has_code(NOT_FOUND) => Err(BrokerError::Missing(format!("queue \"{queue}\""))),
        Err(error) => Err(error.into()),
    }
}

fn lock_queue_name(queue: &str) -> String {
    if LOCK_QUEUE_PREFIX.len() + queue.len() <= NAME_BYTES_MAX {
        format!("{LOCK_QUEUE_PREFIX}{queue}")
    } else {
        format!("{LOCK_QUEUE_PREFIX}{}", Uuid::new_v5(&Uuid::NAMESPACE_OID, queue.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_named_after_its_queue_if_the_name_fits() {
        assert_eq!(lock_queue_name("q.payments.post"), "onceward.reading.q.payments.post");
        let (one, other) = (lock_queue_name(&"q".repeat(255)), lock_queue_name(&"r".repeat(255)));
        assert!(one.len() <= NAME_BYTES_MAX && one != other, "{one} {other}");
    }

    #[test]
    fn a_blocked_queue_exceeds_its_limit_once_and_starts_anew() {
        let blocked = BlockedQueues::default();
        assert!(!blocked.is_longer_than("q", Duration::from_secs(60)));
        assert!(blocked.is_longer_than("q", Duration::ZERO));
        assert!(!blocked.is_longer_than("q", Duration::from_secs(60)));
    }
}
