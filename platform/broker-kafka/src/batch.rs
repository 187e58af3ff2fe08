//! Collects the delivery reports of parcels that were sent together.

use crate::connection::ClientErrors;
use onceward_broker::PublishOutcome;
use parking_lot::Mutex;
use rdkafka::{
    ClientContext, Message,
    config::RDKafkaLogLevel,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{DeliveryResult, ProducerContext},
};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

/// Parcels that are sent and awaited together.
pub(crate) struct Batch {
    state: Mutex<BatchState>,
    done: Notify,
    all_reported: Notify,
}

struct BatchState {
    verdicts: Vec<Option<PublishOutcome>>,
    pending: usize,
    outstanding: usize,
    /// The first report that was not a verdict.
    failure: Option<String>,
}

impl BatchState {
    /// Keeps the first reason.
    fn fail(&mut self, why: String) {
        self.failure = self.failure.take().or(Some(why));
    }
}

impl Batch {
    pub(crate) fn new(parcels: usize) -> Arc<Self> {
        let state = BatchState { verdicts: vec![None; parcels], pending: parcels, outstanding: 0, failure: None };
        Arc::new(Self { state: Mutex::new(state), done: Notify::new(), all_reported: Notify::new() })
    }

    /// Returns the token that accompanies a parcel until its delivery report.
    pub(crate) fn token(self: &Arc<Self>, index: usize) -> Box<DeliveryToken> {
        self.state.lock().outstanding += 1;
        Box::new(DeliveryToken { batch: self.clone(), index })
    }

    /// Records the verdict on one parcel, or the outage that prevents it.
    pub(crate) fn record(&self, index: usize, result: Result<PublishOutcome, String>) {
        let mut state = self.state.lock();
        match result {
            Ok(verdict) => {
                state.pending -= usize::from(state.verdicts[index].replace(verdict).is_none());
            }
            Err(why) => state.fail(why),
        }
        if state.pending == 0 || state.failure.is_some() {
            self.done.notify_one();
        }
    }

    /// Fails the parcels that have no verdict yet.
    fn fail(&self, why: String) {
        self.state.lock().fail(why);
        self.done.notify_one();
    }

    /// Waits until each parcel has a verdict. Fails with the reason if some will have none: the connection was lost, no
    /// report came for `max_silence`, or the deadline passed.
    pub(crate) async fn wait(&self, deadline: Instant, max_silence: Duration) -> Result<(), String> {
        let mut before = self.pending()?;
        while before > 0 {
            let next = deadline.min(Instant::now() + max_silence);
            let done = timeout_at(next, self.done.notified()).await.is_ok();
            let pending = self.pending()?;
            if !done && pending > 0 && (pending == before || next == deadline) {
                return Err(format!("{pending} messages were not confirmed"));
            }
            before = pending;
        }
        Ok(())
    }

    /// Waits, until the deadline at most, for the reports that a purge causes, so that no parcel is outstanding.
    pub(crate) async fn wait_for_all_reports(&self, deadline: Instant) {
        while self.state.lock().outstanding > 0 {
            if timeout_at(deadline, self.all_reported.notified()).await.is_err() {
                return;
            }
        }
    }

    /// Returns how many parcels have no verdict yet. Fails if some will have none.
    pub(crate) fn pending(&self) -> Result<usize, String> {
        let state = self.state.lock();
        match &state.failure {
            Some(why) if state.pending > 0 => Err(why.clone()),
            _ => Ok(state.pending),
        }
    }

    /// Returns the verdicts so far.
    pub(crate) fn verdicts(&self) -> Vec<Option<PublishOutcome>> {
        self.state.lock().verdicts.clone()
    }
}

/// Identifies a parcel in flight.
pub(crate) struct DeliveryToken {
    batch: Arc<Batch>,
    index: usize,
}

impl Drop for DeliveryToken {
    fn drop(&mut self) {
        let mut state = self.batch.state.lock();
        state.outstanding -= 1;
        if state.outstanding == 0 {
            self.batch.all_reported.notify_one();
        }
    }
}

/// Routes delivery reports to their batches.
#[derive(Default)]
pub(crate) struct DeliveryReports(pub(crate) ClientErrors);

impl ClientContext for DeliveryReports {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.0.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.0.error(error, reason);
    }
}

impl ProducerContext for DeliveryReports {
    type DeliveryOpaque = Box<DeliveryToken>;

    fn delivery(&self, result: &DeliveryResult<'_>, token: Box<DeliveryToken>) {
        let answer = match result {
            Ok(_) => Ok(PublishOutcome::Accepted),
            Err((error, message)) => refusal(error, message.topic()).map(PublishOutcome::Refused),
        };
        // The producer does not send the messages behind a refused one.
        let is_refused = matches!(answer, Ok(PublishOutcome::Refused(_)));
        token.batch.record(token.index, answer);
        if is_refused {
            token.batch.fail("a message was refused".to_owned());
        }
    }
}

/// Returns why the broker refuses a message; the `Err` is an outage instead.
pub(crate) fn refusal(error: &KafkaError, exchange: &str) -> Result<String, String> {
    use RDKafkaErrorCode as Code;
    match error.rdkafka_error_code() {
        Some(Code::MessageSizeTooLarge | Code::InvalidMessageSize) => Ok(too_large_for(exchange)),
        Some(Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::InvalidTopic) => Ok(no_topic(exchange)),
        Some(code @ (Code::InvalidRecord | Code::InvalidTimestamp | Code::PolicyViolation)) => {
            Ok(format!("the topic \"{exchange}\" rejected the message: {code}"))
        }
        Some(Code::PurgeQueue | Code::PurgeInflight) => Err("the producer was purged after an error".to_owned()),
        Some(code) => Err(code.to_string()),
        None => Err(error.to_string()),
    }
}

pub(crate) fn too_large_for(exchange: &str) -> String {
    format!("the message is larger than max.message.bytes of the topic \"{exchange}\"")
}

pub(crate) fn no_topic(exchange: &str) -> String {
    format!("the topic \"{exchange}\" does not exist; run `onceward topology declare`")
}
