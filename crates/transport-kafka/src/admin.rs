//! Questions about topics, and making them.

use crate::{
    KafkaBroker,
    connection::{Held, Until, Voice, blocking, bounds, not_made, settings, unavailable},
};
use onceward_transport::BrokerError;
use rdkafka::{
    admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier},
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseProducer, Producer},
    types::RDKafkaRespErr,
};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::runtime::Handle;

/// Any number of questions together. Each has its own, shorter time.
const ALTOGETHER: Duration = Duration::from_secs(60);

const ASK_AGAIN: Duration = Duration::from_millis(50);
/// How long it takes to hear what a client has to say.
const COMPLAINING: Duration = Duration::from_millis(10);
const NOT_LONG: Duration = Duration::from_secs(1);

/// Clients that ask and make. Everything blocks.
pub(crate) struct Admin {
    client: Held<AdminClient<Voice>>,
    /// The other one cannot be heard complaining.
    asking: Held<BaseProducer<Voice>>,
    limit: Duration,
    /// Copies of each topic that is made.
    pub(crate) replication: i32,
    /// The password is sent as it is, for all to read.
    pub(crate) shows_its_password: bool,
}

impl KafkaBroker {
    /// Asks where blocking is allowed. The client is kept for as long as it gets answers.
    pub(crate) async fn admin<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Admin) -> Result<T, BrokerError> + Send + 'static,
    ) -> Result<T, BrokerError> {
        let admin = self.kept_admin()?;
        let asked = admin.clone();
        let answer = blocking("asking", ALTOGETHER, move || ask(&asked)).await;
        if matches!(answer, Err(BrokerError::Unavailable(_))) {
            let mut slot = self.admin.lock().expect("no panic while held");
            if slot.as_ref().is_some_and(|current| Arc::ptr_eq(current, &admin)) {
                *slot = None;
            }
        }
        answer
    }

    fn kept_admin(&self) -> Result<Arc<Admin>, BrokerError> {
        let mut slot = self.admin.lock().expect("no panic while held");
        if let Some(admin) = &*slot {
            return Ok(admin.clone());
        }
        let (target, settings) = settings(&self.config)?;
        let client = settings.create_with_context(Voice::default()).map_err(not_made)?;
        let asking = settings.create_with_context(Voice::default()).map_err(not_made)?;
        let admin = Arc::new(Admin {
            client: Held::new(client, &self.open),
            asking: Held::new(asking, &self.open),
            limit: self.asking_time(),
            replication: target.replication,
            shows_its_password: target.shows_its_password(),
        });
        *slot = Some(admin.clone());
        Ok(admin)
    }
}

impl Admin {
    /// How many copies each partition of a topic has; `None` if there is no such topic.
    pub(crate) fn partitions(&self, topic: &str) -> Result<Option<Vec<usize>>, BrokerError> {
        let metadata = self.asking.client().fetch_metadata(Some(topic), self.limit);
        let metadata = metadata.map_err(|error| self.lost("asking for a topic", error))?;
        Ok(metadata.topics().first().and_then(|found| match found.error() {
            Some(
                RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART
                | RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION,
            ) => None,
            _ => Some(found.partitions().iter().map(|partition| partition.replicas().len()).collect()),
        }))
    }

    /// Any server's number.
    pub(crate) fn server(&self) -> Result<Option<i32>, BrokerError> {
        let metadata = self.asking.client().fetch_metadata(Some(crate::births::TOPIC), self.limit);
        let metadata = metadata.map_err(|error| self.lost("asking for a server", error))?;
        Ok(metadata.brokers().first().map(rdkafka::metadata::MetadataBroker::id))
    }

    /// Where each partition begins and ends.
    pub(crate) fn bounds(&self, topic: &str, partitions: usize) -> Result<Vec<(i64, i64)>, BrokerError> {
        let of = |partition| {
            let found = bounds(self.asking.client(), topic, partition, Until::in_time(self.limit));
            found.map_err(|error| self.lost("asking where a topic ends", error))
        };
        (0..i32::try_from(partitions).unwrap_or(i32::MAX)).map(of).collect()
    }

    /// Makes a topic. `false`: somebody else just did.
    pub(crate) fn make(&self, topic: &NewTopic<'_>) -> Result<bool, BrokerError> {
        let options = AdminOptions::new().request_timeout(Some(self.limit)).operation_timeout(Some(self.limit));
        let made = Handle::current().block_on(self.client.create_topics([topic], &options));
        let made = made.map_err(|error| self.lost("making a topic", error))?;
        match made.into_iter().next() {
            Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(false),
            Some(Err((name, code))) if is_passing(code) => {
                Err(unavailable("making a topic", format_args!("\"{name}\": {code}")))
            }
            Some(Err((name, code))) => Err(BrokerError::Misconfigured(format!(
                "the topic \"{name}\" cannot be made: {code}; make it yourself, or allow us to"
            ))),
            Some(Ok(name)) => self.wait_for(&name).map(|()| true),
            None => Ok(true),
        }
    }

    /// A topic that was made is known a little later.
    fn wait_for(&self, topic: &str) -> Result<(), BrokerError> {
        let until = Until::in_time(self.limit);
        while self.partitions(topic)?.is_none() {
            if until.is_over() {
                return Err(unavailable("making a topic", format_args!("\"{topic}\" was made and is not known yet")));
            }
            std::thread::sleep(ASK_AGAIN);
        }
        Ok(())
    }

    /// The settings of a topic; none if we may not ask.
    pub(crate) fn topic_settings(&self, topic: &str) -> Result<HashMap<String, String>, BrokerError> {
        self.settings(&ResourceSpecifier::Topic(topic), self.limit)
    }

    /// The largest record that a topic takes; `None` if we may not ask. Nothing depends on the answer, so it is not
    /// waited for long.
    pub(crate) fn largest_record(&self, topic: &str) -> Option<usize> {
        let settings = self.settings(&ResourceSpecifier::Topic(topic), self.limit.min(NOT_LONG)).ok()?;
        settings.get("max.message.bytes")?.parse().ok()
    }

    /// The settings of a server; none if we may not ask.
    pub(crate) fn server_settings(&self, server: i32) -> Result<HashMap<String, String>, BrokerError> {
        self.settings(&ResourceSpecifier::Broker(server), self.limit)
    }

    fn settings(&self, of: &ResourceSpecifier<'_>, limit: Duration) -> Result<HashMap<String, String>, BrokerError> {
        let options = AdminOptions::new().request_timeout(Some(limit));
        let described = Handle::current().block_on(self.client.describe_configs([of], &options));
        let described = described.map_err(|error| self.lost("asking for settings", error))?;
        let entries = described.into_iter().flatten().flat_map(|resource| resource.entries);
        Ok(entries.filter_map(|entry| Some((entry.name, entry.value?))).collect())
    }

    fn lost(&self, what: &str, error: KafkaError) -> BrokerError {
        self.asking.poll(COMPLAINING);
        unavailable(what, self.asking.context().reason(error))
    }
}

/// Later it may work.
fn is_passing(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::RequestTimedOut
            | Code::OperationTimedOut
            | Code::NotController
            | Code::BrokerTransportFailure
            | Code::ThrottlingQuotaExceeded
    )
}
