//! Consuming a queue.

use crate::{
    connection::{AmqpConnection, ConsumerChannel, LazyConnection, REPLY_SUCCESS},
    error::{ACCESS_REFUSED, AmqpError, NOT_FOUND},
    message::arrival,
    reader_lock::{BlockedQueues, ReaderLock},
};
use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt};
use lapin::{
    Consumer,
    message::Delivery,
    options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions},
    types::FieldTable,
};
use onceward_broker::{Arrival, BrokerError, ReceiveOptions, Receiver};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// The connection that all receivers of a broker share.
pub(crate) struct ConsumerConnection {
    pub(crate) connection: LazyConnection,
    blocked: BlockedQueues,
}

impl ConsumerConnection {
    pub(crate) fn new(connection: LazyConnection) -> Self {
        Self { connection, blocked: BlockedQueues::default() }
    }
}

/// A receiver of one queue. It opens its session on demand.
pub(crate) struct RabbitMqReceiver {
    consumers: Arc<ConsumerConnection>,
    reading: ReceiveOptions,
    /// Declared before the lock, so that it is dropped first.
    session: Option<Session>,
    lock: Option<ReaderLock>,
}

/// A channel with its consumer. Closing the channel returns unacknowledged messages to the queue, in order.
struct Session {
    connection: Arc<AmqpConnection>,
    /// Declared before the consumer, so that it is dropped first.
    channel: ConsumerChannel,
    consumer: Consumer,
    /// The delivery tag of the last message delivered, until it is acknowledged.
    unacknowledged: Option<u64>,
    /// Why the consumer ended.
    ended: Option<BrokerError>,
}

impl RabbitMqReceiver {
    pub(crate) async fn open(consumers: Arc<ConsumerConnection>, reading: ReceiveOptions) -> Result<Self, BrokerError> {
        let mut receiver = Self { consumers, reading, session: None, lock: None };
        receiver.session().await?;
        Ok(receiver)
    }

    async fn session(&mut self) -> Result<&mut Session, BrokerError> {
        let session = match self.session.take() {
            Some(session) => session,
            None => {
                let connection = self.consumers.connection.get().await?;
                if self.reading.exclusive {
                    self.acquire_lock(&connection).await?;
                }
                Session::open(connection, &self.reading).await?
            }
        };
        Ok(self.session.insert(session))
    }

    async fn acquire_lock(&mut self, connection: &Arc<AmqpConnection>) -> Result<(), BrokerError> {
        let lock = match self.lock.take().filter(|lock| lock.is_held_on(connection)) {
            Some(lock) => lock,
            None => {
                let limit = self.consumers.connection.config().heartbeat;
                ReaderLock::new(connection, &self.reading.queue, &self.consumers.blocked, limit).await?
            }
        };
        self.lock.insert(lock).wait_for_predecessor().await
    }
}

#[async_trait]
impl Receiver for RabbitMqReceiver {
    async fn receive(&mut self, limit: usize, most: Duration) -> Result<Vec<Arrival>, BrokerError> {
        self.session().await?.receive(limit, most).await
    }

    async fn accept(&mut self) -> Result<(), BrokerError> {
        match &mut self.session {
            Some(session) => session.accept().await,
            None => Ok(()),
        }
    }

    /// Closes the session instead of rejecting messages. A quorum queue puts rejected messages at its end, or among
    /// the rest in any order, and prefetched messages would overtake them.
    async fn return_unaccepted(&mut self) -> Result<(), BrokerError> {
        if let Some(session) = self.session.take_if(|session| session.unacknowledged.is_some()) {
            // If the broker does not reply, the connection is lost and it returns the messages anyway.
            let _ = session.connection.call(session.channel.close(REPLY_SUCCESS, "OK".into())).await;
        }
        Ok(())
    }
}

impl Session {
    async fn open(connection: Arc<AmqpConnection>, reading: &ReceiveOptions) -> Result<Self, BrokerError> {
        let channel = connection.consumer_channel().await?;
        let queue = reading.queue.as_str();
        let prefetch = u16::try_from(reading.prefetch).unwrap_or(u16::MAX).max(1);
        let consuming = async {
            channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
            // Quorum queues ignore `exclusive`, classic queues do not.
            let options = BasicConsumeOptions { exclusive: reading.exclusive, ..BasicConsumeOptions::default() };
            channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await
        };
        let consumer = connection.call(consuming).await.map_err(|error| consume_error(error, queue))?;
        Ok(Self { connection, channel, consumer, unacknowledged: None, ended: None })
    }

    /// Cancel safe: no message is lost if the caller drops the future while it waits.
    async fn receive(&mut self, limit: usize, most: Duration) -> Result<Vec<Arrival>, BrokerError> {
        if let Some(ended) = &self.ended {
            return Err(ended.clone());
        }
        let mut arrivals = Vec::new();
        let mut next = match timeout(most, self.consumer.next()).await {
            Ok(first) => first,
            Err(_) => return Ok(arrivals),
        };
        loop {
            match next {
                Some(Ok(delivery)) => arrivals.push(self.track(delivery)),
                Some(Err(error)) => {
                    self.ended = Some(AmqpError::from(error).into());
                    break;
                }
                None => {
                    let queue = self.consumer.queue();
                    let what =
                        format!("RabbitMQ cancelled the consumer of queue \"{queue}\": was it deleted or moved?");
                    self.ended = Some(BrokerError::Unavailable(what));
                    break;
                }
            }
            if arrivals.len() >= limit {
                break;
            }
            next = match self.consumer.next().now_or_never() {
                Some(next) => next,
                None => break,
            };
        }
        match &self.ended {
            Some(ended) if arrivals.is_empty() => Err(ended.clone()),
            _ => Ok(arrivals),
        }
    }

    fn track(&mut self, delivery: Delivery) -> Arrival {
        self.unacknowledged = Some(delivery.delivery_tag);
        arrival(delivery)
    }

    async fn accept(&mut self) -> Result<(), BrokerError> {
        if let Some(last) = self.unacknowledged {
            self.connection.call(self.channel.basic_ack(last, BasicAckOptions { multiple: true })).await?;
            self.unacknowledged = None;
        }
        Ok(())
    }
}

fn consume_error(error: AmqpError, queue: &str) -> BrokerError {
    match error {
        AmqpError::Closed { code: NOT_FOUND, .. } => BrokerError::Missing(format!("queue \"{queue}\"")),
        AmqpError::Closed { code: ACCESS_REFUSED, text } if text.contains("exclusive use") => {
            BrokerError::Taken(queue.to_owned())
        }
        other => other.into(),
    }
}
