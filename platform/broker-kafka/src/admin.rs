//! Topic metadata and settings, and creating topics.

use crate::{
    KafkaBroker,
    connection::{ClientErrors, Deadline, ManagedClient, blocking, bounds, creation_error, settings, unavailable},
};
use onceward_broker::BrokerError;
use rdkafka::{
    admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier},
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseProducer, Producer},
    types::RDKafkaRespErr,
};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::runtime::Handle;

/// The limit for all requests of one call together. Each request has its own, shorter timeout.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(60);

const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// How long to poll for the errors that a client reports.
const ERROR_POLL: Duration = Duration::from_millis(10);
const SIZE_LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);

/// The administration clients. All methods block.
pub(crate) struct KafkaAdmin {
    client: ManagedClient<AdminClient<ClientErrors>>,
    /// For metadata: unlike the admin client, it reports connection errors.
    metadata: ManagedClient<BaseProducer<ClientErrors>>,
    limit: Duration,
    /// The replication factor of new topics.
    pub(crate) replication: i32,
    /// The password is sent unencrypted.
    pub(crate) sends_plaintext_password: bool,
}

impl KafkaBroker {
    /// Runs a request on a blocking thread. The client is kept until a request finds the cluster unavailable.
    pub(crate) async fn admin<T: Send + 'static>(
        &self,
        request: impl FnOnce(&KafkaAdmin) -> Result<T, BrokerError> + Send + 'static,
    ) -> Result<T, BrokerError> {
        let admin = self.cached_admin()?;
        let client = admin.clone();
        let result = blocking("administration request", TOTAL_TIMEOUT, move || request(&client)).await;
        if matches!(result, Err(BrokerError::Unavailable(_))) {
            let mut slot = self.admin.lock();
            if slot.as_ref().is_some_and(|current| Arc::ptr_eq(current, &admin)) {
                *slot = None;
            }
        }
        result
    }

    fn cached_admin(&self) -> Result<Arc<KafkaAdmin>, BrokerError> {
        let mut slot = self.admin.lock();
        if let Some(admin) = &*slot {
            return Ok(admin.clone());
        }
        let (url, settings) = settings(&self.config)?;
        let client = settings.create_with_context(ClientErrors::default()).map_err(creation_error)?;
        let metadata = settings.create_with_context(ClientErrors::default()).map_err(creation_error)?;
        let admin = Arc::new(KafkaAdmin {
            client: ManagedClient::new(client, &self.open_clients),
            metadata: ManagedClient::new(metadata, &self.open_clients),
            limit: self.request_timeout(),
            replication: url.replication,
            sends_plaintext_password: url.sends_plaintext_password(),
        });
        *slot = Some(admin.clone());
        Ok(admin)
    }
}

impl KafkaAdmin {
    /// Returns the number of replicas of each partition of a topic, or `None` if the topic does not exist.
    pub(crate) fn partitions(&self, topic: &str) -> Result<Option<Vec<usize>>, BrokerError> {
        let metadata = self.metadata.client().fetch_metadata(Some(topic), self.limit);
        let metadata = metadata.map_err(|error| self.request_failed("fetching topic metadata", error))?;
        Ok(metadata.topics().first().and_then(|found| match found.error() {
            Some(
                RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART
                | RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION,
            ) => None,
            _ => Some(found.partitions().iter().map(|partition| partition.replicas().len()).collect()),
        }))
    }

    /// Returns the id of any server.
    pub(crate) fn any_server(&self) -> Result<Option<i32>, BrokerError> {
        let metadata = self.metadata.client().fetch_metadata(Some(crate::queue_starts::TOPIC), self.limit);
        let metadata = metadata.map_err(|error| self.request_failed("fetching cluster metadata", error))?;
        Ok(metadata.brokers().first().map(rdkafka::metadata::MetadataBroker::id))
    }

    /// Returns the first offset and the end of each partition.
    pub(crate) fn bounds(&self, topic: &str, partitions: usize) -> Result<Vec<(i64, i64)>, BrokerError> {
        let of = |partition| {
            let found = bounds(self.metadata.client(), topic, partition, Deadline::after(self.limit));
            found.map_err(|error| self.request_failed("fetching the offsets of a topic", error))
        };
        (0..i32::try_from(partitions).unwrap_or(i32::MAX)).map(of).collect()
    }

    /// Creates a topic. Returns `false` if it was created concurrently.
    pub(crate) fn create_topic(&self, topic: &NewTopic<'_>) -> Result<bool, BrokerError> {
        let options = AdminOptions::new().request_timeout(Some(self.limit)).operation_timeout(Some(self.limit));
        let created = Handle::current().block_on(self.client.create_topics([topic], &options));
        let created = created.map_err(|error| self.request_failed("creating a topic", error))?;
        match created.into_iter().next() {
            Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(false),
            Some(Err((name, code))) if is_transient(code) => {
                Err(unavailable("creating a topic", format_args!("\"{name}\": {code}")))
            }
            Some(Err((name, code))) => Err(BrokerError::Misconfigured(format!(
                "cannot create the topic \"{name}\": {code}; create it, or grant the user the right to create topics"
            ))),
            Some(Ok(name)) => self.wait_for(&name).map(|()| true),
            None => Ok(true),
        }
    }

    /// Waits until a new topic appears in the metadata.
    fn wait_for(&self, topic: &str) -> Result<(), BrokerError> {
        let deadline = Deadline::after(self.limit);
        while self.partitions(topic)?.is_none() {
            if deadline.has_passed() {
                return Err(unavailable(
                    "creating a topic",
                    format_args!("\"{topic}\" was created but is not visible yet"),
                ));
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
        Ok(())
    }

    /// Returns the settings of a topic; empty if the user may not read them.
    pub(crate) fn topic_settings(&self, topic: &str) -> Result<HashMap<String, String>, BrokerError> {
        self.settings(&ResourceSpecifier::Topic(topic), self.limit)
    }

    /// Returns the largest record that a topic accepts, or `None` if the user may not read it. The result is optional, so
    /// the timeout is short.
    pub(crate) fn largest_record(&self, topic: &str) -> Option<usize> {
        let settings = self.settings(&ResourceSpecifier::Topic(topic), self.limit.min(SIZE_LOOKUP_TIMEOUT)).ok()?;
        settings.get("max.message.bytes")?.parse().ok()
    }

    /// Returns the settings of a server; empty if the user may not read them.
    pub(crate) fn server_settings(&self, server: i32) -> Result<HashMap<String, String>, BrokerError> {
        self.settings(&ResourceSpecifier::Broker(server), self.limit)
    }

    fn settings(&self, of: &ResourceSpecifier<'_>, limit: Duration) -> Result<HashMap<String, String>, BrokerError> {
        let options = AdminOptions::new().request_timeout(Some(limit));
        let described = Handle::current().block_on(self.client.describe_configs([of], &options));
        let described = described.map_err(|error| self.request_failed("fetching settings", error))?;
        let entries = described.into_iter().flatten().flat_map(|resource| resource.entries);
        Ok(entries.filter_map(|entry| Some((entry.name, entry.value?))).collect())
    }

    fn request_failed(&self, what: &str, error: KafkaError) -> BrokerError {
        self.metadata.poll(ERROR_POLL);
        unavailable(what, self.metadata.context().describe(error))
    }
}

/// Whether a retry may succeed.
fn is_transient(code: RDKafkaErrorCode) -> bool {
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
