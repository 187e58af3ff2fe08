//! Membership in the consumer group of a queue.

use crate::{
    TOPIC_BYTES,
    bindings::Bindings,
    connection::{ClientErrors, Deadline, ManagedClient, creation_error, millis, settings, unavailable},
    queue_starts::{self, QueueStarts},
};
use onceward_broker::{BrokerConfig, BrokerError};
use parking_lot::Mutex;
use rdkafka::{
    ClientConfig, ClientContext, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::{KafkaError, RDKafkaErrorCode},
    types::RDKafkaRespErr,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

/// Servers reject shorter (`group.min.session.timeout.ms`) and longer session timeouts.
const SESSION_TIMEOUT_RANGE: (Duration, Duration) = (Duration::from_secs(6), Duration::from_secs(1_800));
/// How soon a reader learns that others joined or left.
const HEARTBEAT_INTERVAL_MAX: Duration = Duration::from_millis(500);
/// A reader that does not poll for this long leaves the group. It covers an outage of the database.
const POLL_INTERVAL_MAX: Duration = Duration::from_secs(300);
/// How long a fetch waits for messages. One sent before a rebalance covers only the old partitions.
const FETCH_WAIT_MAX: Duration = Duration::from_millis(200);
/// The limit of what is fetched ahead, for all partitions together.
const PREFETCH_KBYTES: u32 = 16 << 10;

const ERROR_POLLS: usize = 32;

/// The consumer of a group member.
pub(crate) type GroupConsumer = Arc<ManagedClient<BaseConsumer<GroupContext>>>;

/// Returns the settings of consumers in `group`.
pub(crate) fn consumer_settings(config: &BrokerConfig, group: &str) -> Result<ClientConfig, BrokerError> {
    let (_, mut settings) = settings(config)?;
    let session = config.heartbeat.clamp(SESSION_TIMEOUT_RANGE.0, SESSION_TIMEOUT_RANGE.1);
    settings
        .set("group.id", group)
        .set("session.timeout.ms", millis(session))
        .set("heartbeat.interval.ms", millis((config.heartbeat / 3).min(HEARTBEAT_INTERVAL_MAX)))
        .set("max.poll.interval.ms", millis(POLL_INTERVAL_MAX.max(session)))
        // An eager strategy: a rebalance revokes all partitions first, so an offset that cannot be committed
        // always means that another reader took over.
        .set("partition.assignment.strategy", "roundrobin")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "earliest")
        .set("fetch.wait.max.ms", millis((config.heartbeat / 4).min(FETCH_WAIT_MAX)))
        .set("fetch.error.backoff.ms", "100")
        .set("fetch.queue.backoff.ms", "20")
        .set("queued.max.messages.kbytes", PREFETCH_KBYTES.to_string())
        .set("receive.message.max.bytes", (8 * TOPIC_BYTES).to_string());
    Ok(settings)
}

/// The consumer context, which records assignments and revocations until the receiver handles them.
#[derive(Default)]
pub(crate) struct GroupContext {
    errors: ClientErrors,
    assigned: Mutex<Option<TopicPartitionList>>,
    revoked: Mutex<Option<Revocation>>,
    leaving: AtomicBool,
}

/// How partitions were revoked. It is always all of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Revocation {
    /// All members release their partitions, which are then reassigned.
    Rebalance,
    /// The group has removed this member.
    Lost,
}

impl GroupContext {
    /// Returns assigned partitions that are not read yet.
    pub(crate) fn assigned(&self) -> Option<TopicPartitionList> {
        self.assigned.lock().clone()
    }

    pub(crate) fn is_assigned(&self) -> bool {
        self.assigned.lock().is_some()
    }

    pub(crate) fn clear_assigned(&self) {
        *self.assigned.lock() = None;
    }

    /// Returns the revocation since the last call, if there was one.
    pub(crate) fn revoked(&self) -> Option<Revocation> {
        self.revoked.lock().take()
    }

    /// Refuses further assignments. Returns whether one is waiting for an answer.
    pub(crate) fn leave(&self) -> bool {
        self.leaving.store(true, Ordering::Release);
        self.assigned.lock().take().is_some()
    }

    /// Returns the error together with the client's last connection error.
    pub(crate) fn describe(&self, error: impl std::fmt::Display) -> String {
        self.errors.describe(error)
    }
}

impl ClientContext for GroupContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.errors.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.errors.error(error, reason);
    }
}

impl ConsumerContext for GroupContext {
    /// Determining the start offsets takes a request to the server, so it is not done here, in the middle of a poll.
    fn rebalance(&self, consumer: &BaseConsumer<Self>, event: RDKafkaRespErr, partitions: &mut TopicPartitionList) {
        let assigned = event == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        if assigned && !self.leaving.load(Ordering::Acquire) {
            *self.assigned.lock() = Some(partitions.clone());
            return;
        }
        *self.assigned.lock() = None;
        let revocation = if consumer.assignment_lost() { Revocation::Lost } else { Revocation::Rebalance };
        *self.revoked.lock() = Some(revocation);
        if let Err(error) = consumer.unassign() {
            tracing::debug!(%error, "revoked partitions could not be released");
        }
    }
}

/// Membership in a queue's group, and where its queue starts.
pub(crate) struct GroupMembership {
    pub(crate) consumer: GroupConsumer,
    pub(crate) starts: Arc<QueueStarts>,
    /// Notified when there is something to poll.
    pub(crate) nonempty: Arc<Notify>,
}

impl GroupMembership {
    /// Creates a consumer and subscribes it. Fails if a topic or the queue is missing. Blocks.
    pub(crate) fn join(
        settings: &ClientConfig,
        queue: &str,
        bindings: &Bindings,
        open_clients: &TaskTracker,
        deadline: Deadline,
    ) -> Result<Self, BrokerError> {
        let mut consumer: BaseConsumer<GroupContext> =
            settings.create_with_context(GroupContext::default()).map_err(creation_error)?;
        let nonempty = Arc::new(Notify::new());
        let notify = nonempty.clone();
        consumer.set_nonempty_callback(move || notify.notify_one());
        let consumer = Arc::new(ManagedClient::new(consumer, open_clients));
        for topic in bindings.exchanges().chain([queue_starts::TOPIC]) {
            check_topic_exists(&consumer, topic, deadline)?;
        }
        let starts = QueueStarts::read(&consumer, deadline)?;
        if let Some(exchange) = bindings.exchanges().find(|exchange| starts.of(queue, exchange).is_none()) {
            return Err(BrokerError::Missing(format!("queue \"{queue}\" of exchange \"{exchange}\"")));
        }
        let topics: Vec<&str> = bindings.exchanges().collect();
        if !topics.is_empty() {
            consumer.subscribe(&topics).map_err(|error| unavailable("subscribing", error))?;
        }
        Ok(Self { consumer, starts: Arc::new(starts), nonempty })
    }
}

impl Drop for GroupMembership {
    /// The group waits for an answer to every assignment, even from a member that leaves.
    fn drop(&mut self) {
        if self.consumer.context().leave()
            && let Err(error) = self.consumer.unassign()
        {
            tracing::debug!(%error, "an assignment could not be released");
        }
    }
}

fn check_topic_exists(consumer: &GroupConsumer, topic: &str, deadline: Deadline) -> Result<(), BrokerError> {
    let metadata = consumer.fetch_metadata(Some(topic), deadline.remaining());
    let metadata = metadata.map_err(|error| {
        // Polling delivers the client's errors; nothing is assigned, so no message can arrive.
        (0..ERROR_POLLS).for_each(|_| drop(consumer.poll(Duration::ZERO)));
        unavailable("fetching topic metadata", consumer.context().describe(error))
    })?;
    match metadata.topics().first().and_then(|topic| topic.error()) {
        Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) => {
            Err(BrokerError::Missing(format!("exchange \"{topic}\"")))
        }
        _ => Ok(()),
    }
}

/// Converts the error of a poll; returns `None` if the client recovers without help.
pub(crate) fn fatal_error(error: &KafkaError, queue: &str) -> Option<BrokerError> {
    use RDKafkaErrorCode as Code;
    let lost = || Some(BrokerError::Unavailable(format!("queue \"{queue}\" cannot be read: {error}")));
    match error {
        KafkaError::MessageConsumptionFatal(_) => lost(),
        _ => match error.rdkafka_error_code()? {
            Code::UnknownTopic | Code::UnknownTopicOrPartition => {
                Some(BrokerError::Missing(format!("an exchange of queue \"{queue}\"")))
            }
            // Reconnecting may help, because credentials are read for every connection.
            Code::Authentication
            | Code::SaslAuthenticationFailed
            | Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::ClusterAuthorizationFailed => lost(),
            _ => None,
        },
    }
}
