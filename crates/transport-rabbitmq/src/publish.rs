//! Publishing: every message of a batch on its way at once, and one wait for what the broker says of each.

use crate::{
    MAX_BODY_BYTES,
    clerk::Clerk,
    connection::Wire,
    link::Link,
    locked,
    message::{properties, unfit},
    trouble::Trouble,
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
use onceward_transport::{BrokerError, Parcel, Verdict};
use std::{
    collections::{BTreeSet, VecDeque},
    pin::Pin,
    sync::{Arc, Mutex},
};
use tokio::{sync::Semaphore, time::timeout};
use uuid::Uuid;

/// Batches that are on their way at the same time, each on a channel of its own.
const CHANNELS_MAX: usize = 16;
/// Of one batch, the library holds a second copy of so much at most.
const IN_FLIGHT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The verdicts of a batch as they come in.
type Verdicts = [Option<Verdict>];

pub(crate) struct Publisher {
    link: Link,
    permits: Semaphore,
    idle: Mutex<Vec<Desk>>,
}

/// A channel on which the broker confirms. One batch at a time has it.
struct Desk {
    wire: Arc<Wire>,
    channel: Channel,
}

impl Publisher {
    pub(crate) fn new(link: Link) -> Self {
        Self { link, permits: Semaphore::new(CHANNELS_MAX), idle: Mutex::default() }
    }

    pub(crate) async fn publish(&self, parcels: &[Parcel]) -> Result<Vec<Verdict>, BrokerError> {
        let limit = self.link.config().publish_timeout;
        let mut verdicts: Vec<Option<Verdict>> = parcels.iter().map(refuse_large).collect();
        match timeout(limit, self.publish_open(parcels, &mut verdicts)).await {
            Ok(done) => done?,
            Err(_) => {
                let late = || BrokerError::Unavailable(format!("RabbitMQ did not confirm within {limit:?}"));
                return Err(self.link.made().and_then(|wire| held_back(&wire).err()).unwrap_or_else(late));
            }
        }
        Ok(verdicts.into_iter().map(|verdict| verdict.expect("every parcel has been answered for")).collect())
    }

    /// Fills in what is missing. Every round has all the answers or one exchange less to deal with.
    async fn publish_open(&self, parcels: &[Parcel], verdicts: &mut Verdicts) -> Result<(), BrokerError> {
        let _permit = self.permits.acquire().await.expect("nobody closes it");
        while verdicts.iter().any(Option::is_none) {
            let desk = self.desk().await?;
            refuse(parcels, verdicts, |parcel| unfit(parcel, desk.wire.frame_max_bytes()));
            refuse_missing(&desk.wire, parcels, verdicts).await?;
            match send(&desk.channel, parcels, verdicts).await {
                Ok(()) => locked(&self.idle).push(desk),
                Err(Trouble::Told { text, .. }) if refuse_culprits(&text, parcels, verdicts) => {
                    locked(&desk.wire.exchanges).clear();
                }
                Err(trouble) => return Err(trouble.into()),
            }
        }
        Ok(())
    }

    /// An idle channel, or a new one.
    async fn desk(&self) -> Result<Desk, BrokerError> {
        let idle = {
            let mut idle = locked(&self.idle);
            idle.retain(|desk| desk.wire.is_alive() && desk.channel.status().connected());
            idle.pop()
        };
        if let Some(desk) = idle {
            held_back(&desk.wire)?;
            return Ok(desk);
        }
        let wire = self.link.wire().await?;
        // First, because then nothing else gets through either.
        held_back(&wire)?;
        let channel = wire.channel().await?;
        wire.ask(channel.confirm_select(ConfirmSelectOptions::default())).await?;
        Ok(Desk { wire, channel })
    }

    pub(crate) async fn close(&self) {
        self.link.close().await;
        locked(&self.idle).clear();
    }
}

fn held_back(wire: &Wire) -> Result<(), BrokerError> {
    if wire.is_held_back() {
        let why = "RabbitMQ holds publishers back, because it is short of memory or disk space";
        return Err(BrokerError::Unavailable(format!("{why}: see `rabbitmq-diagnostics alarms`")));
    }
    Ok(())
}

/// Publishes what has no verdict yet, in order. After an error none has: what came back may belong to any of them.
async fn send(channel: &Channel, parcels: &[Parcel], verdicts: &mut Verdicts) -> Result<(), Trouble> {
    let mut in_flight = VecDeque::new();
    let mut in_flight_bytes = 0;
    let mut answers = Vec::with_capacity(parcels.len());
    let mut returned = Vec::new();
    for (index, parcel) in parcels.iter().enumerate().filter(|(index, _)| verdicts[*index].is_none()) {
        let mut confirm = Box::pin(maybe_done(confirmed(channel, parcel)));
        // The first look queues the frames. Waiting here until they are written would be a change of threads a message.
        let _ = poll!(confirm.as_mut());
        in_flight.push_back((index, confirm));
        in_flight_bytes += parcel.body.len();
        while in_flight_bytes > IN_FLIGHT_BYTES_MAX
            && let Some((index, confirm)) = in_flight.pop_front()
        {
            in_flight_bytes -= parcels[index].body.len();
            answers.push((index, answer(confirm, &mut returned).await?));
        }
    }
    for (index, confirm) in in_flight {
        answers.push((index, answer(confirm, &mut returned).await?));
    }
    for (index, answer) in answers {
        verdicts[index] = Some(answer);
    }
    refuse_returned(&returned, parcels, verdicts);
    Ok(())
}

async fn confirmed(channel: &Channel, parcel: &Parcel) -> lapin::Result<Confirmation> {
    let options = BasicPublishOptions { mandatory: parcel.expected, ..BasicPublishOptions::default() };
    let (exchange, key) = (parcel.topic.exchange.as_str().into(), parcel.topic.routing_key.as_str().into());
    channel.basic_publish(exchange, key, options, &parcel.body, properties(parcel)).await?.await
}

async fn answer(
    mut confirm: Pin<Box<MaybeDone<impl Future<Output = lapin::Result<Confirmation>>>>>,
    returned: &mut Vec<BasicReturnMessage>,
) -> Result<Verdict, Trouble> {
    confirm.as_mut().await;
    let confirmation = confirm.as_mut().take_output().expect("it was waited for, once")?;
    let verdict = if confirmation.is_ack() {
        Verdict::Accepted
    } else {
        Verdict::Refused(
            "RabbitMQ did not take it: a queue is full, or has failed; see `rabbitmqctl list_queues`".to_owned(),
        )
    };
    returned.extend(confirmation.take_message());
    Ok(verdict)
}

/// The library attaches what came back to whichever confirmation comes next, so that only the message says which it is.
fn refuse_returned(returned: &[BasicReturnMessage], parcels: &[Parcel], verdicts: &mut Verdicts) {
    for message in returned {
        let id = message.properties.message_id().as_ref().and_then(|id| id.as_str().parse::<Uuid>().ok());
        let is_it = |parcel: &Parcel| {
            Some(parcel.id) == id
                && parcel.topic.exchange == message.exchange.as_str()
                && parcel.topic.routing_key == message.routing_key.as_str()
        };
        let accepted = parcels
            .iter()
            .zip(verdicts.iter_mut())
            .find(|(parcel, verdict)| is_it(parcel) && **verdict == Some(Verdict::Accepted));
        if let Some((parcel, verdict)) = accepted {
            *verdict = Some(Verdict::Refused(format!(
                "unroutable: no queue takes {} ({}); run `onceward topology declare`",
                parcel.topic,
                message.reply_text.as_str()
            )));
        }
    }
}

fn refuse_large(parcel: &Parcel) -> Option<Verdict> {
    let bytes = parcel.body.len();
    (bytes > MAX_BODY_BYTES).then(|| {
        Verdict::Refused(format!(
            "a body of {bytes} bytes; at most {MAX_BODY_BYTES} go over RabbitMQ: send large content by reference"
        ))
    })
}

/// Publishing to an exchange that is not there costs the channel, with whatever else was on its way.
async fn refuse_missing(wire: &Arc<Wire>, parcels: &[Parcel], verdicts: &mut Verdicts) -> Result<(), BrokerError> {
    let unknown: BTreeSet<String> = {
        let known = locked(&wire.exchanges);
        let open = parcels.iter().zip(verdicts.iter()).filter(|(_, verdict)| verdict.is_none());
        open.map(|(parcel, _)| &parcel.topic.exchange).filter(|name| !known.contains(*name)).cloned().collect()
    };
    let mut clerk = Clerk::new(wire.clone());
    for name in unknown {
        if clerk.has_exchange(&name).await? {
            locked(&wire.exchanges).insert(name);
        } else {
            let reason = || format!("exchange \"{name}\" is missing on the bus; run `onceward topology declare`");
            refuse(parcels, verdicts, |parcel| (parcel.topic.exchange == name).then(reason));
        }
    }
    Ok(())
}

/// Refuses those for whose sake the broker ended the channel. `false`: it does not say who they are.
fn refuse_culprits(text: &str, parcels: &[Parcel], verdicts: &mut Verdicts) -> bool {
    let largest = text.contains("message size").then(|| text.rsplit(' ').next()?.parse::<usize>().ok()).flatten();
    refuse(parcels, verdicts, |parcel| {
        let named = text.contains(&format!("exchange '{}'", parcel.topic.exchange));
        let large = largest.is_some_and(|largest| parcel.body.len() > largest);
        (named || large).then(|| format!("RabbitMQ: {text}"))
    })
}

/// Refuses what is open and has a reason to be. `true`: something was.
fn refuse(parcels: &[Parcel], verdicts: &mut Verdicts, reason: impl Fn(&Parcel) -> Option<String>) -> bool {
    let mut any = false;
    for (parcel, verdict) in parcels.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_none()) {
        if let Some(reason) = reason(parcel) {
            *verdict = Some(Verdict::Refused(reason));
            any = true;
        }
    }
    any
}
