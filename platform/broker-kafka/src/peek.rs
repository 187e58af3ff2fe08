//! Reads single records without joining a group.

use crate::{
    connection::{Deadline, ManagedClient, creation_error, unavailable},
    group::GroupContext,
};
use jiff::Timestamp;
use onceward_broker::{BrokerError, wire::PUBLISHED_AT};
use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::KafkaError,
    message::{BorrowedMessage, Headers},
};
use std::collections::HashMap;
use tokio_util::task::TaskTracker;

/// A topic and one of its partitions.
pub(crate) type Partition = (String, i32);

/// The offset and times of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordInfo {
    pub(crate) offset: i64,
    /// The broker's timestamp, in milliseconds since 1970.
    pub(crate) written_ms: i64,
    /// When it was published, from its header; otherwise the broker's timestamp.
    pub(crate) published_at: Option<Timestamp>,
}

/// Creates a consumer that fetches one or a few records at a time.
pub(crate) fn consumer(
    mut settings: ClientConfig,
    open_clients: &TaskTracker,
) -> Result<ManagedClient<BaseConsumer<GroupContext>>, BrokerError> {
    settings.set("queued.min.messages", "1").set("fetch.message.max.bytes", "1024").set("fetch.min.bytes", "1");
    let consumer: BaseConsumer<GroupContext> =
        settings.create_with_context(GroupContext::default()).map_err(creation_error)?;
    Ok(ManagedClient::new(consumer, open_clients))
}

/// Returns the first record at or after an offset of each partition. There must be one in each. Blocks.
pub(crate) fn records_at(
    consumer: &BaseConsumer<GroupContext>,
    offsets: &HashMap<Partition, i64>,
    deadline: Deadline,
) -> Result<HashMap<Partition, RecordInfo>, BrokerError> {
    let failed = |error: KafkaError| unavailable("reading a record", error);
    let mut records = HashMap::with_capacity(offsets.len());
    if offsets.is_empty() {
        return Ok(records);
    }
    let mut list = TopicPartitionList::new();
    for ((topic, partition), offset) in offsets {
        list.add_partition_offset(topic, *partition, Offset::Offset(*offset)).map_err(failed)?;
    }
    consumer.assign(&list).map_err(failed)?;
    while records.len() < offsets.len() {
        match consumer.poll(deadline.remaining()) {
            Some(Ok(record)) => {
                let partition = (record.topic().to_owned(), record.partition());
                records.entry(partition).or_insert_with(|| record_info(&record));
            }
            // The client retries until the deadline.
            Some(Err(_)) | None if !deadline.has_passed() => {}
            Some(Err(error)) => return Err(failed(error)),
            None => return Err(unavailable("reading a record", "no response in time")),
        }
    }
    consumer.unassign().map_err(failed)?;
    Ok(records)
}

fn record_info(record: &BorrowedMessage<'_>) -> RecordInfo {
    let written_ms = written_ms(record);
    let published = record.headers().and_then(|headers| {
        let time = headers.iter().find(|header| header.key == PUBLISHED_AT)?.value?;
        std::str::from_utf8(time).ok()?.parse().ok()
    });
    let published_at = published.or_else(|| Timestamp::from_millisecond(written_ms).ok());
    RecordInfo { offset: record.offset(), written_ms, published_at }
}

/// Returns the broker's timestamp of a record in milliseconds since 1970, or 0 if it has none.
pub(crate) fn written_ms(record: &BorrowedMessage<'_>) -> i64 {
    record.timestamp().to_millis().unwrap_or(0)
}
