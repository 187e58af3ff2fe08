//! Being one of the readers of a queue: joining its group, and beginning where it left off.

use crate::{
    TOPIC_BYTES,
    bindings::Bindings,
    births::{self, Births},
    connection::{Held, Until, Voice, millis, not_made, settings, unavailable},
};
use onceward_transport::{BrokerConfig, BrokerError};
use rdkafka::{
    ClientConfig, ClientContext, Offset, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::{KafkaError, KafkaResult, RDKafkaErrorCode},
    types::RDKafkaRespErr,
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

/// Servers refuse a shorter one (`group.min.session.timeout.ms`) or a longer one.
const SESSION: (Duration, Duration) = (Duration::from_secs(6), Duration::from_secs(1_800));
/// How soon a reader hears that others came or went.
const HEARTBEAT_MAX: Duration = Duration::from_millis(500);
/// A reader that does not ask for messages for so long makes room for others. A database may be down meanwhile.
const STUCK: Duration = Duration::from_secs(300);
/// How long a question for messages waits for some. One that was asked before partitions changed hands knows only the old ones.
const FETCH_MAX: Duration = Duration::from_millis(200);
/// What is fetched ahead, for all partitions together.
const AHEAD_KBYTES: u32 = 16 << 10;

const COMPLAINTS_MAX: usize = 32;

/// A member of a group.
pub(crate) type Member = Arc<Held<BaseConsumer<Membership>>>;

/// The settings of everything that reads as `group`.
pub(crate) fn reading(config: &BrokerConfig, group: &str) -> Result<ClientConfig, BrokerError> {
    let (_, mut settings) = settings(config)?;
    let session = config.heartbeat.clamp(SESSION.0, SESSION.1);
    settings
        .set("group.id", group)
        .set("session.timeout.ms", millis(session))
        .set("heartbeat.interval.ms", millis((config.heartbeat / 3).min(HEARTBEAT_MAX)))
        .set("max.poll.interval.ms", millis(STUCK.max(session)))
        // All partitions change hands at once, and nobody has any in hand then: an offset that cannot be committed
        // always means that somebody else took over.
        .set("partition.assignment.strategy", "roundrobin")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "earliest")
        .set("fetch.wait.max.ms", millis((config.heartbeat / 4).min(FETCH_MAX)))
        .set("fetch.error.backoff.ms", "100")
        .set("fetch.queue.backoff.ms", "20")
        .set("queued.max.messages.kbytes", AHEAD_KBYTES.to_string())
        .set("receive.message.max.bytes", (8 * TOPIC_BYTES).to_string());
    Ok(settings)
}

/// What the group decided since it was last looked at.
#[derive(Default)]
pub(crate) struct Membership {
    voice: Voice,
    assigned: Mutex<Option<TopicPartitionList>>,
    revoked: Mutex<Option<Revoked>>,
    leaving: AtomicBool,
}

/// How partitions were taken away. It is always all of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Revoked {
    /// Everybody gives up theirs, and they are dealt out anew.
    Asked,
    /// The group has gone on without us.
    Lost,
}

impl Membership {
    /// Partitions that are ours and not yet read.
    pub(crate) fn assigned(&self) -> Option<TopicPartitionList> {
        self.assigned.lock().expect("no panic while held").clone()
    }

    pub(crate) fn is_assigned(&self) -> bool {
        self.assigned.lock().expect("no panic while held").is_some()
    }

    pub(crate) fn begun(&self) {
        *self.assigned.lock().expect("no panic while held") = None;
    }

    /// Whether everything was taken away since the last call.
    pub(crate) fn revoked(&self) -> Option<Revoked> {
        self.revoked.lock().expect("no panic while held").take()
    }

    /// Nobody will look at assignments any more. `true`: one waits.
    pub(crate) fn leave(&self) -> bool {
        self.leaving.store(true, Ordering::Release);
        self.assigned.lock().expect("no panic while held").take().is_some()
    }

    /// The error, with what the client says of its connections.
    pub(crate) fn reason(&self, error: impl std::fmt::Display) -> String {
        self.voice.reason(error)
    }
}

impl ClientContext for Membership {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.voice.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.voice.error(error, reason);
    }
}

impl ConsumerContext for Membership {
    /// Finding out where to begin takes a question to the server, so it is not done here, in the middle of a poll.
    fn rebalance(&self, consumer: &BaseConsumer<Self>, event: RDKafkaRespErr, partitions: &mut TopicPartitionList) {
        let assigned = event == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        if assigned && !self.leaving.load(Ordering::Acquire) {
            *self.assigned.lock().expect("no panic while held") = Some(partitions.clone());
            return;
        }
        *self.assigned.lock().expect("no panic while held") = None;
        let how = if consumer.assignment_lost() { Revoked::Lost } else { Revoked::Asked };
        *self.revoked.lock().expect("no panic while held") = Some(how);
        if let Err(error) = consumer.unassign() {
            tracing::debug!(%error, "partitions that were taken away could not be let go");
        }
    }
}

/// A member of a queue's group, and where its queue begins.
pub(crate) struct Joined {
    pub(crate) member: Member,
    pub(crate) births: Arc<Births>,
    /// Told when there is something to poll.
    pub(crate) nonempty: Arc<Notify>,
}

impl Joined {
    /// Blocks.
    pub(crate) fn join(
        settings: &ClientConfig,
        queue: &str,
        bindings: &Bindings,
        open: &TaskTracker,
        until: Until,
    ) -> Result<Self, BrokerError> {
        let mut consumer: BaseConsumer<Membership> =
            settings.create_with_context(Membership::default()).map_err(not_made)?;
        let nonempty = Arc::new(Notify::new());
        let notify = nonempty.clone();
        consumer.set_nonempty_callback(move || notify.notify_one());
        let member = Arc::new(Held::new(consumer, open));
        for topic in bindings.exchanges().chain([births::TOPIC]) {
            exists(&member, topic, until)?;
        }
        let births = Births::read(&member, until)?;
        if let Some(exchange) = bindings.exchanges().find(|exchange| births.of(queue, exchange).is_none()) {
            return Err(BrokerError::Missing(format!("queue \"{queue}\" of exchange \"{exchange}\"")));
        }
        let topics: Vec<&str> = bindings.exchanges().collect();
        if !topics.is_empty() {
            member.subscribe(&topics).map_err(|error| unavailable("subscribing", error))?;
        }
        Ok(Self { member, births: Arc::new(births), nonempty })
    }
}

impl Drop for Joined {
    /// The group waits for an answer to every assignment, even from one that leaves.
    fn drop(&mut self) {
        if self.member.context().leave()
            && let Err(error) = self.member.unassign()
        {
            tracing::debug!(%error, "an assignment could not be let go");
        }
    }
}

fn exists(member: &Member, topic: &str, until: Until) -> Result<(), BrokerError> {
    let metadata = member.fetch_metadata(Some(topic), until.left());
    let metadata = metadata.map_err(|error| {
        // What it has to say is heard by polling; nothing is assigned, so no message can come.
        (0..COMPLAINTS_MAX).for_each(|_| drop(member.poll(Duration::ZERO)));
        unavailable("asking for a topic", member.context().reason(error))
    })?;
    match metadata.topics().first().and_then(|topic| topic.error()) {
        Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) => {
            Err(BrokerError::Missing(format!("exchange \"{topic}\"")))
        }
        _ => Ok(()),
    }
}

/// Begins to read partitions: where the group left off, or where the queue begins. Blocks.
pub(crate) fn begin(
    member: &Member,
    queue: &str,
    births: &Births,
    partitions: TopicPartitionList,
    until: Until,
) -> KafkaResult<()> {
    let committed = member.committed_offsets(partitions, until.left())?;
    let mut begin = TopicPartitionList::new();
    for place in committed.elements() {
        place.error()?;
        let offset = match place.offset() {
            Offset::Offset(offset) => Offset::Offset(offset),
            _ => match births
                .of(queue, place.topic())
                .and_then(|born| born.get(usize::try_from(place.partition()).ok()?))
            {
                Some(offset) => Offset::Offset(*offset),
                None => Offset::Beginning,
            },
        };
        begin.add_partition_offset(place.topic(), place.partition(), offset)?;
    }
    member.assign(&begin)
}

/// What an error of a poll means; `None` if the client gets over it by itself.
pub(crate) fn grave(error: &KafkaError, queue: &str) -> Option<BrokerError> {
    use RDKafkaErrorCode as Code;
    let lost = || Some(BrokerError::Unavailable(format!("queue \"{queue}\" cannot be read: {error}")));
    match error {
        KafkaError::MessageConsumptionFatal(_) => lost(),
        _ => match error.rdkafka_error_code()? {
            Code::UnknownTopic | Code::UnknownTopicOrPartition => {
                Some(BrokerError::Missing(format!("an exchange of queue \"{queue}\"")))
            }
            // New credentials may help, and they are read for every connection.
            Code::Authentication
            | Code::SaslAuthenticationFailed
            | Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::ClusterAuthorizationFailed => lost(),
            _ => None,
        },
    }
}
