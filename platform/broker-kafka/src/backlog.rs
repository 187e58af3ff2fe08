//! How far a queue is behind the end of its topics, and since when.
//!
//! If positions are stored in the database, they show how far each queue was read, so any number of queues takes the same
//! few requests. Without them, the group's offsets are fetched, which takes one client per queue.

use crate::{
    KafkaBroker,
    admin::KafkaAdmin,
    bindings::Bindings,
    connection::{Deadline, ManagedClient, creation_error, unavailable},
    declare::READER_GROUP,
    group::{GroupContext, consumer_settings},
    peek::{self, Partition},
    queue_starts::QueueStarts,
};
use onceward_broker::{Backlog, BrokerError, Position};
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
};
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};
use tokio_util::task::TaskTracker;

/// The first offset and the end of each partition.
type Bounds = BTreeMap<Partition, (i64, i64)>;

impl KafkaBroker {
    pub(crate) async fn backlogs_of(&self, queues: &[String]) -> Result<Vec<Backlog>, BrokerError> {
        let positions = match &self.positions {
            Some(positions) => Some(positions.load(queues).await?),
            None => None,
        };
        let mut groups = Vec::with_capacity(queues.len());
        for queue in queues {
            let bindings = Bindings::of(&self.topology, queue);
            groups.push(QueueGroup {
                queue: queue.clone(),
                exchanges: bindings.exchanges().map(str::to_owned).collect(),
                settings: consumer_settings(&self.config, queue)?,
            });
        }
        let settings = consumer_settings(&self.config, READER_GROUP)?;
        let query = BacklogQuery {
            groups,
            positions,
            settings,
            open_clients: self.open_clients.clone(),
            limit: self.request_timeout(),
        };
        self.admin(move |admin| query.backlogs(admin)).await
    }
}

struct QueueGroup {
    queue: String,
    exchanges: Vec<String>,
    settings: ClientConfig,
}

struct BacklogQuery {
    groups: Vec<QueueGroup>,
    /// The positions in the database, if they are stored there.
    positions: Option<Vec<Position>>,
    settings: ClientConfig,
    open_clients: TaskTracker,
    limit: Duration,
}

impl BacklogQuery {
    fn backlogs(&self, admin: &KafkaAdmin) -> Result<Vec<Backlog>, BrokerError> {
        let bounds = self.bounds(admin)?;
        if bounds.is_empty() {
            return Ok(vec![Backlog { waiting: Some(0), oldest_at: None }; self.groups.len()]);
        }
        let consumer = peek::consumer(self.settings.clone(), &self.open_clients)?;
        let starts = QueueStarts::read(&consumer, Deadline::after(self.limit))?;
        self.groups.iter().map(|group| self.backlog(group, &bounds, &starts, &consumer)).collect()
    }

    fn bounds(&self, admin: &KafkaAdmin) -> Result<Bounds, BrokerError> {
        let mut exchanges: Vec<&String> = self.groups.iter().flat_map(|group| &group.exchanges).collect();
        exchanges.sort();
        exchanges.dedup();
        let mut bounds = Bounds::new();
        for exchange in exchanges {
            let partitions = admin.partitions(exchange)?;
            let partitions = partitions.ok_or_else(|| BrokerError::Missing(format!("exchange \"{exchange}\"")))?.len();
            for (partition, bound) in (0..).zip(admin.bounds(exchange, partitions)?) {
                bounds.insert((exchange.clone(), partition), bound);
            }
        }
        Ok(bounds)
    }

    fn backlog(
        &self,
        group: &QueueGroup,
        bounds: &Bounds,
        starts: &QueueStarts,
        consumer: &BaseConsumer<GroupContext>,
    ) -> Result<Backlog, BrokerError> {
        let own = || bounds.iter().filter(|((exchange, _), _)| group.exchanges.contains(exchange));
        let offsets = match &self.positions {
            Some(positions) => stored_offsets(positions, &group.queue),
            None => self.committed(group, own().map(|(partition, _)| partition))?,
        };
        let (mut waiting, mut behind) = (0, HashMap::new());
        for ((exchange, partition), (begin, end)) in own() {
            let declared = || starts.of(&group.queue, exchange)?.get(usize::try_from(*partition).ok()?).copied();
            let key = (exchange.clone(), *partition);
            let offset = offsets.get(&key).copied().or_else(declared).unwrap_or(0);
            // An offset beyond the end belongs to a deleted topic; the current one has not been read.
            let offset = if offset > *end { *begin } else { offset.max(*begin) };
            if offset < *end {
                waiting += u64::try_from(end - offset).unwrap_or(0);
                behind.insert(key, offset);
            }
        }
        let oldest = peek::records_at(consumer, &behind, Deadline::after(self.limit))?;
        let oldest_at = oldest.values().filter_map(|record| record.published_at).min();
        Ok(Backlog { waiting: Some(waiting), oldest_at })
    }

    fn committed<'a>(
        &self,
        group: &QueueGroup,
        partitions: impl Iterator<Item = &'a Partition>,
    ) -> Result<HashMap<Partition, i64>, BrokerError> {
        let consumer: BaseConsumer<GroupContext> =
            group.settings.create_with_context(GroupContext::default()).map_err(creation_error)?;
        let consumer = ManagedClient::new(consumer, &self.open_clients);
        let mut list = TopicPartitionList::new();
        for (topic, partition) in partitions {
            list.add_partition(topic, *partition);
        }
        let committed = consumer.committed_offsets(list, self.limit);
        let committed = committed.map_err(|error| unavailable("fetching the offsets of a group", error))?;
        let known = committed.elements().into_iter().filter_map(|entry| match entry.offset() {
            Offset::Offset(offset) => Some(((entry.topic().to_owned(), entry.partition()), offset)),
            _ => None,
        });
        Ok(known.collect())
    }
}

fn stored_offsets(positions: &[Position], queue: &str) -> HashMap<Partition, i64> {
    let own = positions.iter().filter(|position| position.queue == queue);
    own.map(|position| ((position.source.clone(), position.partition), position.next_offset)).collect()
}
