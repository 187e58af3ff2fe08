//! Publishing: the publisher routes, and a batch becomes a few transactions in a row.

use crate::{
    MAX_BODY_BYTES, entry,
    link::{Link, trouble},
    names,
    pool::Shared,
};
use onceward_transport::{BrokerError, Parcel, Verdict};
use redis::{Pipeline, Value};
use std::collections::BTreeSet;

/// A transaction holds about so much: the server keeps all of it in memory before it runs it.
const PART_BYTES: usize = 4 * 1024 * 1024;
/// And so many messages: others wait while it runs.
const PART_MESSAGES: usize = 1_000;

/// What goes in one transaction, and the queue of each of its commands.
#[derive(Default)]
struct Part<'a> {
    queues: Vec<&'a str>,
    bytes: usize,
    commands: Pipeline,
}

/// An error leaves a beginning of the batch in the streams, in order and without gaps; nobody knows how much of it.
pub(crate) async fn publish(shared: &Shared, parcels: Vec<Parcel>) -> Result<Vec<Verdict>, BrokerError> {
    let mut parts = Vec::new();
    let verdicts = parcels.iter().map(|parcel| address(shared, parcel, &mut parts)).collect();
    if !parts.is_empty() {
        let most = shared.config.publish_timeout;
        let sent = tokio::time::timeout(most, send(shared, parts)).await;
        sent.unwrap_or_else(|_| {
            let what = format!("no answer to a batch of messages within {} ms", most.as_millis());
            Err(BrokerError::Unavailable(what))
        })?;
    }
    Ok(verdicts)
}

/// Finds the queues that take a parcel, and says what the verdict is once they have it.
fn address<'a>(shared: &'a Shared, parcel: &Parcel, parts: &mut Vec<Part<'a>>) -> Verdict {
    let bytes = parcel.body.len();
    if bytes > MAX_BODY_BYTES {
        return Verdict::Refused(format!("its body has {bytes} bytes; at most {MAX_BODY_BYTES} are taken"));
    }
    let queues = match shared.topology.route(&parcel.topic.exchange, &parcel.topic.routing_key) {
        Ok(queues) => queues,
        Err(error) => return Verdict::Refused(error.to_string()),
    };
    if queues.is_empty() && parcel.expected {
        return Verdict::Refused(format!("no queue is bound to {}: bind one in a service's topology", parcel.topic));
    }
    for queue in queues {
        let fits = |part: &Part| part.bytes + bytes <= PART_BYTES && part.queues.len() < PART_MESSAGES;
        if !parts.last().is_some_and(fits) {
            parts.push(Part::default());
        }
        if let Some(part) = parts.last_mut() {
            part.queues.push(queue);
            part.bytes += bytes;
            part.commands.add_command(entry::add(&names::stream(queue), parcel));
        }
    }
    Verdict::Accepted
}

async fn send(shared: &Shared, parts: Vec<Part<'_>>) -> Result<(), BrokerError> {
    let mut link = shared.link().await?;
    look_for_missing(shared, &mut link, &parts).await?;
    for mut part in parts {
        let answers = link.transact(&mut part.commands).await.map_err(|error| shared.lost(error))?;
        heed(shared, &part.queues, answers)?;
    }
    shared.keep(link);
    Ok(())
}

/// Every message is answered with its id. None means that the stream is not there: the message was not kept.
fn heed(shared: &Shared, queues: &[&str], answers: Vec<Value>) -> Result<(), BrokerError> {
    let mut outcome = Ok(());
    for (queue, answer) in queues.iter().zip(answers) {
        match answer {
            Value::ServerError(error) => outcome = Err(trouble(error.into())),
            Value::Nil => {
                shared.note_missing(queue);
                outcome = Err(names::missing(queue));
            }
            _ => {}
        }
    }
    outcome
}

/// A batch for a queue that was missing is not sent before the queue is there: each try would leave copies of its other
/// messages behind.
async fn look_for_missing(shared: &Shared, link: &mut Link, parts: &[Part<'_>]) -> Result<(), BrokerError> {
    let queues = parts.iter().flat_map(|part| &part.queues).copied();
    let doubtful: BTreeSet<&str> = queues.filter(|queue| shared.was_missing(queue)).collect();
    for queue in doubtful {
        let exists = redis::cmd("EXISTS").arg(names::stream(queue)).to_owned();
        if !link.ask::<bool>(&exists).await.map_err(|error| shared.lost(error))? {
            return Err(names::missing(queue));
        }
        shared.note_found(queue);
    }
    Ok(())
}
