//! Publishing: all messages of a batch are in flight at once, then one wait for the broker's confirmation of each.

use crate::{
    MAX_BODY_BYTES,
    admin_channel::AdminChannel,
    connection::{AmqpConnection, LazyConnection},
    error::AmqpError,
    message::{limit_violation, properties},
};
use futures_util::{
    future::{MaybeDone, maybe_done},
    poll,
};
use lapin::{
    Channel, Confirmation,
    message::BasicReturnMessage,
    options::{BasicPublishOptions, ConfirmSelectOptions},
};
use onceward_broker::{BrokerError, Parcel, PublishOutcome};
use parking_lot::Mutex;
use std::{
    collections::{BTreeSet, VecDeque},
    pin::Pin,
    sync::Arc,
};
use tokio::{sync::Semaphore, time::timeout};
use uuid::Uuid;

/// The number of batches in flight at the same time, each on its own channel.
const CHANNELS_MAX: usize = 16;
/// The library keeps a second copy of at most this much of one batch.
const IN_FLIGHT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The verdicts of a batch; `None` while the broker has not confirmed the parcel.
type Verdicts = [Option<PublishOutcome>];

/// Publishes batches over one connection.
pub(crate) struct RabbitMqPublisher {
    connection: LazyConnection,
    permits: Semaphore,
    idle: Mutex<Vec<ConfirmChannel>>,
}

/// A channel in confirm mode. One batch at a time uses it.
struct ConfirmChannel {
    connection: Arc<AmqpConnection>,
    channel: Channel,
}

impl RabbitMqPublisher {
    pub(crate) fn new(connection: LazyConnection) -> Self {
        Self { connection, permits: Semaphore::new(CHANNELS_MAX), idle: Mutex::default() }
    }

    pub(crate) async fn publish(&self, parcels: &[Parcel]) -> Result<Vec<PublishOutcome>, BrokerError> {
        let limit = self.connection.config().publish_timeout;
        let mut verdicts: Vec<Option<PublishOutcome>> = parcels.iter().map(refuse_large).collect();
        match timeout(limit, self.publish_pending(parcels, &mut verdicts)).await {
            Ok(done) => done?,
            Err(_) => {
                let late =
                    || BrokerError::Unavailable(format!("RabbitMQ did not confirm the messages within {limit:?}"));
                return Err(self
                    .connection
                    .current()
                    .and_then(|connection| check_not_blocked(&connection).err())
                    .unwrap_or_else(late));
            }
        }
        Ok(verdicts.into_iter().map(|verdict| verdict.expect("every parcel has a verdict")).collect())
    }

    /// Publishes the parcels without a verdict. Each round settles all of them, or refuses those of at least one exchange.
    async fn publish_pending(&self, parcels: &[Parcel], verdicts: &mut Verdicts) -> Result<(), BrokerError> {
        let _permit = self.permits.acquire().await.expect("the semaphore is never closed");
        while verdicts.iter().any(Option::is_none) {
            let confirms = self.confirm_channel().await?;
            refuse(parcels, verdicts, |parcel| limit_violation(parcel, confirms.connection.frame_max_bytes()));
            refuse_missing(&confirms.connection, parcels, verdicts).await?;
            match send(&confirms.channel, parcels, verdicts).await {
                Ok(()) => self.idle.lock().push(confirms),
                Err(AmqpError::Closed { text, .. }) if refuse_named_in(&text, parcels, verdicts) => {
                    confirms.connection.known_exchanges.lock().clear();
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Returns an idle channel, or opens a new one. Fails if the broker blocks publishing.
    async fn confirm_channel(&self) -> Result<ConfirmChannel, BrokerError> {
        let idle = {
            let mut idle = self.idle.lock();
            idle.retain(|confirms| confirms.connection.is_alive() && confirms.channel.status().connected());
            idle.pop()
        };
        if let Some(confirms) = idle {
            check_not_blocked(&confirms.connection)?;
            return Ok(confirms);
        }
        let connection = self.connection.get().await?;
        // Checked first, because a blocked connection does not answer other calls either.
        check_not_blocked(&connection)?;
        let channel = connection.channel().await?;
        connection.call(channel.confirm_select(ConfirmSelectOptions::default())).await?;
        Ok(ConfirmChannel { connection, channel })
    }

    pub(crate) async fn close(&self) {
        self.connection.close().await;
        self.idle.lock().clear();
    }
}

fn check_not_blocked(connection: &AmqpConnection) -> Result<(), BrokerError> {
    if connection.is_blocked() {
        let why = "RabbitMQ blocks publishers because it is short of memory or disk space";
        return Err(BrokerError::Unavailable(format!("{why}: see `rabbitmq-diagnostics alarms`")));
    }
    Ok(())
}

/// Publishes the parcels without a verdict, in order. After an error none gets one: a return may belong to any of them.
async fn send(channel: &Channel, parcels: &[Parcel], verdicts: &mut Verdicts) -> Result<(), AmqpError> {
    let mut in_flight = VecDeque::new();
    let mut in_flight_bytes = 0;
    let mut answers = Vec::with_capacity(parcels.len());
    let mut returned = Vec::new();
    for (index, parcel) in parcels.iter().enumerate().filter(|(index, _)| verdicts[*index].is_none()) {
        let mut confirm = Box::pin(maybe_done(publish_and_confirm(channel, parcel)));
        // The first poll queues the frames. Waiting here until they are written would cost one thread switch per message.
        let _ = poll!(confirm.as_mut());
        in_flight.push_back((index, confirm));
        in_flight_bytes += parcel.body.len();
        while in_flight_bytes > IN_FLIGHT_BYTES_MAX
            && let Some((index, confirm)) = in_flight.pop_front()
        {
            in_flight_bytes -= parcels[index].body.len();
            answers.push((index, wait_for_confirm(confirm, &mut returned).await?));
        }
    }
    for (index, confirm) in in_flight {
        answers.push((index, wait_for_confirm(confirm, &mut returned).await?));
    }
    for (index, answer) in answers {
        verdicts[index] = Some(answer);
    }
    refuse_returned(&returned, parcels, verdicts);
    Ok(())
}

async fn publish_and_confirm(channel: &Channel, parcel: &Parcel) -> lapin::Result<Confirmation> {
    let options = BasicPublishOptions { mandatory: parcel.expected, ..BasicPublishOptions::default() };
    let (exchange, key) = (parcel.topic.exchange.as_str().into(), parcel.topic.routing_key.as_str().into());
    channel.basic_publish(exchange, key, options, &parcel.body, properties(parcel)).await?.await
}

async fn wait_for_confirm(
    mut confirm: Pin<Box<MaybeDone<impl Future<Output = lapin::Result<Confirmation>>>>>,
    returned: &mut Vec<BasicReturnMessage>,
) -> Result<PublishOutcome, AmqpError> {
    confirm.as_mut().await;
    let confirmation = confirm.as_mut().take_output().expect("it is done and taken once")?;
    let verdict = if confirmation.is_ack() {
        PublishOutcome::Accepted
    } else {
        PublishOutcome::Refused(
            "RabbitMQ rejected the message: a queue is full or has failed; see `rabbitmqctl list_queues`".to_owned(),
        )
    };
    returned.extend(confirmation.take_message());
    Ok(verdict)
}

/// The library attaches a returned message to whichever confirmation comes next, so only the message identifies its parcel.
fn refuse_returned(returned: &[BasicReturnMessage], parcels: &[Parcel], verdicts: &mut Verdicts) {
    for message in returned {
        let id = message.properties.message_id().as_ref().and_then(|id| id.as_str().parse::<Uuid>().ok());
        let is_returned = |parcel: &Parcel| {
            Some(parcel.id) == id
                && parcel.topic.exchange == message.exchange.as_str()
                && parcel.topic.routing_key == message.routing_key.as_str()
        };
        let accepted = parcels
            .iter()
            .zip(verdicts.iter_mut())
            .find(|(parcel, verdict)| is_returned(parcel) && **verdict == Some(PublishOutcome::Accepted));
        if let Some((parcel, verdict)) = accepted {
            *verdict = Some(PublishOutcome::Refused(format!(
                "unroutable: no queue is bound for {} ({}); run `onceward topology declare`",
                parcel.topic,
                message.reply_text.as_str()
            )));
        }
    }
}

fn refuse_large(parcel: &Parcel) -> Option<PublishOutcome> {
    let bytes = parcel.body.len();
    (bytes > MAX_BODY_BYTES).then(|| {
        PublishOutcome::Refused(format!(
            "the body has {bytes} bytes and RabbitMQ carries at most {MAX_BODY_BYTES}: send large content by reference"
        ))
    })
}

/// Refuses parcels of missing exchanges. Publishing to one closes the channel, with everything else in flight on it.
async fn refuse_missing(
    connection: &Arc<AmqpConnection>,
    parcels: &[Parcel],
    verdicts: &mut Verdicts,
) -> Result<(), BrokerError> {
    let unknown: BTreeSet<String> = {
        let known = connection.known_exchanges.lock();
        let open = parcels.iter().zip(verdicts.iter()).filter(|(_, verdict)| verdict.is_none());
        open.map(|(parcel, _)| &parcel.topic.exchange).filter(|name| !known.contains(*name)).cloned().collect()
    };
    let mut admin = AdminChannel::new(connection.clone());
    for name in unknown {
        if admin.has_exchange(&name).await? {
            connection.known_exchanges.lock().insert(name);
        } else {
            let reason = || format!("exchange \"{name}\" is missing on the bus; run `onceward topology declare`");
            refuse(parcels, verdicts, |parcel| (parcel.topic.exchange == name).then(reason));
        }
    }
    Ok(())
}

/// Refuses the parcels that made the broker close the channel. Returns `false` if its text identifies none.
fn refuse_named_in(text: &str, parcels: &[Parcel], verdicts: &mut Verdicts) -> bool {
    let largest = text.contains("message size").then(|| text.rsplit(' ').next()?.parse::<usize>().ok()).flatten();
    refuse(parcels, verdicts, |parcel| {
        let named = text.contains(&format!("exchange '{}'", parcel.topic.exchange));
        let large = largest.is_some_and(|largest| parcel.body.len() > largest);
        (named || large).then(|| format!("RabbitMQ: {text}"))
    })
}

/// Refuses each pending parcel for which `reason` returns one. Returns whether any was refused.
fn refuse(parcels: &[Parcel], verdicts: &mut Verdicts, reason: impl Fn(&Parcel) -> Option<String>) -> bool {
    let mut any = false;
    for (parcel, verdict) in parcels.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_none()) {
        if let Some(reason) = reason(parcel) {
            *verdict = Some(PublishOutcome::Refused(reason));
            any = true;
        }
    }
    any
}
