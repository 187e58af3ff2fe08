//! How far behind the end of its topics a queue is.

use crate::{
    KafkaBroker,
    admin::Admin,
    bindings::Bindings,
    births::Births,
    connection::{Held, Until, not_made, unavailable},
    group::{Membership, reading},
};
use onceward_transport::BrokerError;
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
};
use std::{collections::HashMap, time::Duration};
use tokio_util::task::TaskTracker;

impl KafkaBroker {
    pub(crate) async fn behind(&self, queue: &str) -> Result<u64, BrokerError> {
        let group = Group {
            queue: queue.to_owned(),
            exchanges: Bindings::of(&self.topology, queue).exchanges().map(str::to_owned).collect(),
            settings: reading(&self.config, queue)?,
            open: self.open.clone(),
            limit: self.asking_time(),
        };
        self.admin(move |admin| group.behind(admin)).await
    }
}

struct Group {
    queue: String,
    exchanges: Vec<String>,
    settings: ClientConfig,
    open: TaskTracker,
    limit: Duration,
}

impl Group {
    fn behind(&self, admin: &Admin) -> Result<u64, BrokerError> {
        let mut bounds = HashMap::new();
        for exchange in &self.exchanges {
            let partitions = admin.partitions(exchange)?;
            let partitions = partitions.ok_or_else(|| BrokerError::Missing(format!("exchange \"{exchange}\"")))?.len();
            for (partition, bound) in (0..).zip(admin.bounds(exchange, partitions)?) {
                bounds.insert((exchange.clone(), partition), bound);
            }
        }
        if bounds.is_empty() {
            return Ok(0);
        }
        let consumer: BaseConsumer<Membership> =
            self.settings.create_with_context(Membership::default()).map_err(not_made)?;
        let consumer = Held::new(consumer, &self.open);
        let births = Births::read(&consumer, Until::in_time(self.limit))?;
        let committed = self.committed(&consumer, bounds.keys())?;
        let behind = bounds.iter().map(|((exchange, partition), (begin, end))| {
            let born = || births.of(&self.queue, exchange)?.get(usize::try_from(*partition).ok()?).copied();
            let place = match committed.get(&(exchange.clone(), *partition)) {
                Some(Offset::Offset(offset)) => *offset,
                _ => born().unwrap_or(0),
            };
            u64::try_from(end - place.max(*begin)).unwrap_or(0)
        });
        Ok(behind.sum())
    }

    fn committed<'a>(
        &self,
        consumer: &BaseConsumer<Membership>,
        partitions: impl Iterator<Item = &'a (String, i32)>,
    ) -> Result<HashMap<(String, i32), Offset>, BrokerError> {
        let mut list = TopicPartitionList::new();
        for (topic, partition) in partitions {
            list.add_partition(topic, *partition);
        }
        let committed = consumer.committed_offsets(list, self.limit);
        committed.map(|list| list.to_topic_map()).map_err(|error| unavailable("asking how far a queue was read", error))
    }
}
