//! Publishing: the publisher routes messages, and a batch becomes a few consecutive transactions.

use crate::{
    MAX_BODY_BYTES,
    connection::{RedisConnection, broker_error},
    entry, names,
    pool::SharedState,
};
use onceward_broker::{BrokerError, Parcel, PublishOutcome};
use redis::{Pipeline, Value};
use std::collections::BTreeSet;

/// The approximate size limit of a transaction: the server buffers all of it before it runs it.
const TRANSACTION_BYTES: usize = 4 * 1024 * 1024;
/// The limit of messages per transaction: other clients wait while it runs.
const TRANSACTION_MESSAGES: usize = 1_000;

/// The commands of one transaction, and the queue of each.
#[derive(Default)]
struct Transaction<'a> {
    queues: Vec<&'a str>,
    bytes: usize,
    commands: Pipeline,
}

/// An error leaves a prefix of the batch of unknown length in the streams, in order and without gaps.
pub(crate) async fn publish(shared: &SharedState, parcels: Vec<Parcel>) -> Result<Vec<PublishOutcome>, BrokerError> {
    let mut transactions = Vec::new();
    let verdicts = parcels.iter().map(|parcel| route(shared, parcel, &mut transactions)).collect();
    if !transactions.is_empty() {
        let most = shared.config.publish_timeout;
        let sent = tokio::time::timeout(most, send(shared, transactions)).await;
        sent.unwrap_or_else(|_| {
            let what = format!("no reply to a batch of messages within {} ms", most.as_millis());
            Err(BrokerError::Unavailable(what))
        })?;
    }
    Ok(verdicts)
}

/// Adds a parcel to the transactions, once for each of its queues. Returns its verdict once they succeed.
fn route<'a>(shared: &'a SharedState, parcel: &Parcel, transactions: &mut Vec<Transaction<'a>>) -> PublishOutcome {
    let bytes = parcel.body.len();
    if bytes > MAX_BODY_BYTES {
        return PublishOutcome::Refused(format!(
            "the body has {bytes} bytes and at most {MAX_BODY_BYTES} are accepted"
        ));
    }
    let queues = match shared.topology.route(&parcel.topic.exchange, &parcel.topic.routing_key) {
        Ok(queues) => queues,
        Err(error) => return PublishOutcome::Refused(error.to_string()),
    };
    if queues.is_empty() && parcel.expected {
        return PublishOutcome::Refused(format!(
            "no queue is bound to {}: bind one in a service's topology",
            parcel.topic
        ));
    }
    for queue in queues {
        let fits = |transaction: &Transaction| {
            transaction.bytes + bytes <= TRANSACTION_BYTES && transaction.queues.len() < TRANSACTION_MESSAGES
        };
        if !transactions.last().is_some_and(fits) {
            transactions.push(Transaction::default());
        }
        if let Some(transaction) = transactions.last_mut() {
            transaction.queues.push(queue);
            transaction.bytes += bytes;
            transaction.commands.add_command(entry::add(&names::stream(queue), parcel));
        }
    }
    PublishOutcome::Accepted
}

async fn send(shared: &SharedState, transactions: Vec<Transaction<'_>>) -> Result<(), BrokerError> {
    let mut connection = shared.connection().await?;
    check_missing_queues(shared, &mut connection, &transactions).await?;
    for mut transaction in transactions {
        let replies =
            connection.transaction(&mut transaction.commands).await.map_err(|error| shared.connection_error(error))?;
        check_replies(shared, &transaction.queues, replies)?;
    }
    shared.put_back(connection);
    Ok(())
}

/// The reply to each message is its id. Nil means that the stream is missing and the message was not stored.
fn check_replies(shared: &SharedState, queues: &[&str], replies: Vec<Value>) -> Result<(), BrokerError> {
    let mut outcome = Ok(());
    for (queue, reply) in queues.iter().zip(replies) {
        match reply {
            Value::ServerError(error) => outcome = Err(broker_error(error.into())),
            Value::Nil => {
                shared.note_missing(queue);
                outcome = Err(names::missing(queue));
            }
            _ => {}
        }
    }
    outcome
}

/// A batch for a queue that was missing is not sent before the queue exists: each attempt would store another copy of its
/// other messages.
async fn check_missing_queues(
    shared: &SharedState,
    connection: &mut RedisConnection,
    transactions: &[Transaction<'_>],
) -> Result<(), BrokerError> {
    let queues = transactions.iter().flat_map(|transaction| &transaction.queues).copied();
    let missing: BTreeSet<&str> = queues.filter(|queue| shared.was_missing(queue)).collect();
    for queue in missing {
        let exists = redis::cmd("EXISTS").arg(names::stream(queue)).to_owned();
        if !connection.command::<bool>(&exists).await.map_err(|error| shared.connection_error(error))? {
            return Err(names::missing(queue));
        }
        shared.note_found(queue);
    }
    Ok(())
}
