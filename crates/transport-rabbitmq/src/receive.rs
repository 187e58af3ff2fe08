//! Reading a queue.

use crate::{
    claim::{Claim, Patience},
    connection::{OK, ReadingChannel, Wire},
    link::Link,
    message::arrival,
    trouble::{ACCESS_REFUSED, NOT_FOUND, Trouble},
};
use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt};
use lapin::{
    Consumer,
    message::Delivery,
    options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions},
    types::FieldTable,
};
use onceward_transport::{Arrival, BrokerError, Reading, Receiver};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// What all readers of a broker share.
pub(crate) struct ReadingRoom {
    pub(crate) link: Link,
    patience: Patience,
}

impl ReadingRoom {
    pub(crate) fn new(link: Link) -> Self {
        Self { link, patience: Patience::default() }
    }
}

/// A queue that is read, or that will be when somebody asks.
pub(crate) struct RabbitMqReceiver {
    room: Arc<ReadingRoom>,
    reading: Reading,
    /// Before the claim, so that it goes first.
    session: Option<Session>,
    claim: Option<Claim>,
}

/// Its end is the end of the channel, at which the broker takes back what was not accepted, in order.
struct Session {
    wire: Arc<Wire>,
    /// Before the consumer, so that it goes first.
    channel: ReadingChannel,
    consumer: Consumer,
    /// The last message that was handed out, if it was not accepted.
    in_hand: Option<u64>,
    /// Why nothing comes any more.
    ended: Option<BrokerError>,
}

impl RabbitMqReceiver {
    pub(crate) async fn open(room: Arc<ReadingRoom>, reading: Reading) -> Result<Self, BrokerError> {
        let mut receiver = Self { room, reading, session: None, claim: None };
        receiver.session().await?;
        Ok(receiver)
    }

    async fn session(&mut self) -> Result<&mut Session, BrokerError> {
        let session = match self.session.take() {
            Some(session) => session,
            None => {
                let wire = self.room.link.wire().await?;
                if self.reading.exclusive {
                    self.claim(&wire).await?;
                }
                Session::open(wire, &self.reading).await?
            }
        };
        Ok(self.session.insert(session))
    }

    async fn claim(&mut self, wire: &Arc<Wire>) -> Result<(), BrokerError> {
        let claim = match self.claim.take().filter(|claim| claim.holds_on(wire)) {
            Some(claim) => claim,
            None => {
                let limit = self.room.link.config().heartbeat;
                Claim::new(wire, &self.reading.queue, &self.room.patience, limit).await?
            }
        };
        self.claim.insert(claim).wait_for_predecessor().await
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

    /// Ends the session instead of sending messages back. A quorum queue puts what is sent back at its end, or among
    /// the rest in any order; and messages that are on their way to us would overtake it.
    async fn give_back(&mut self) -> Result<(), BrokerError> {
        if let Some(session) = self.session.take_if(|session| session.in_hand.is_some()) {
            // If nobody answers, the broker will come to the same conclusion.
            let _ = session.wire.ask(session.channel.close(OK, "OK".into())).await;
        }
        Ok(())
    }
}

impl Session {
    async fn open(wire: Arc<Wire>, reading: &Reading) -> Result<Self, BrokerError> {
        let channel = wire.reading_channel().await?;
        let queue = reading.queue.as_str();
        let prefetch = u16::try_from(reading.prefetch).unwrap_or(u16::MAX).max(1);
        let consuming = async {
            channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
            // Quorum queues ignore the wish, older kinds do not.
            let options = BasicConsumeOptions { exclusive: reading.exclusive, ..BasicConsumeOptions::default() };
            channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await
        };
        let consumer = wire.ask(consuming).await.map_err(|trouble| refused(trouble, queue))?;
        Ok(Self { wire, channel, consumer, in_hand: None, ended: None })
    }

    /// Nothing is lost if the caller loses interest while this waits.
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
                Some(Ok(delivery)) => arrivals.push(self.hand_out(delivery)),
                Some(Err(error)) => {
                    self.ended = Some(Trouble::from(error).into());
                    break;
                }
                None => {
                    let queue = self.consumer.queue();
                    let what = format!("RabbitMQ ended the reading of queue \"{queue}\": was it deleted, or moved?");
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

    fn hand_out(&mut self, delivery: Delivery) -> Arrival {
        self.in_hand = Some(delivery.delivery_tag);
        arrival(delivery)
    }

    async fn accept(&mut self) -> Result<(), BrokerError> {
        if let Some(last) = self.in_hand {
            self.wire.ask(self.channel.basic_ack(last, BasicAckOptions { multiple: true })).await?;
            self.in_hand = None;
        }
        Ok(())
    }
}

fn refused(trouble: Trouble, queue: &str) -> BrokerError {
    match trouble {
        Trouble::Told { code: NOT_FOUND, .. } => BrokerError::Missing(format!("queue \"{queue}\"")),
        Trouble::Told { code: ACCESS_REFUSED, text } if text.contains("exclusive use") => {
            BrokerError::Taken(queue.to_owned())
        }
        other => other.into(),
    }
}
