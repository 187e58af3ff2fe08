//! Counting the broker's answers to parcels that were sent together.

use crate::connection::Voice;
use onceward_transport::Verdict;
use rdkafka::{
    ClientContext, Message,
    config::RDKafkaLogLevel,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{DeliveryResult, ProducerContext},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

/// Parcels that are waited for together.
pub(crate) struct Batch {
    state: Mutex<State>,
    over: Notify,
    all_back: Notify,
}

struct State {
    verdicts: Vec<Option<Verdict>>,
    open: usize,
    tickets: usize,
    /// The first answer that was no verdict.
    lost: Option<String>,
}

impl State {
    /// The first reason is the one that counts.
    fn stop(&mut self, why: String) {
        self.lost = self.lost.take().or(Some(why));
    }
}

impl Batch {
    pub(crate) fn new(parcels: usize) -> Arc<Self> {
        let state = State { verdicts: vec![None; parcels], open: parcels, tickets: 0, lost: None };
        Arc::new(Self { state: Mutex::new(state), over: Notify::new(), all_back: Notify::new() })
    }

    /// What travels with the parcel and comes back with its answer.
    pub(crate) fn ticket(self: &Arc<Self>, index: usize) -> Box<Ticket> {
        self.state.lock().expect("no panic while held").tickets += 1;
        Box::new(Ticket { batch: self.clone(), index })
    }

    /// The broker's word about one parcel; an error is an outage.
    pub(crate) fn answer(&self, index: usize, answer: Result<Verdict, String>) {
        let mut state = self.state.lock().expect("no panic while held");
        match answer {
            Ok(verdict) => {
                state.open -= usize::from(state.verdicts[index].replace(verdict).is_none());
            }
            Err(why) => state.stop(why),
        }
        if state.open == 0 || state.lost.is_some() {
            self.over.notify_one();
        }
    }

    /// The others will have no verdict.
    fn stop(&self, why: String) {
        self.state.lock().expect("no panic while held").stop(why);
        self.over.notify_one();
    }

    /// Waits until each parcel has its verdict. An error says why some will have none: the broker is lost, or said
    /// nothing for `silence`, or took longer than `until`.
    pub(crate) async fn wait(&self, until: Instant, silence: Duration) -> Result<(), String> {
        let mut before = self.open()?;
        while before > 0 {
            let next = until.min(Instant::now() + silence);
            let over = timeout_at(next, self.over.notified()).await.is_ok();
            let open = self.open()?;
            if !over && open > 0 && (open == before || next == until) {
                return Err(format!("{open} messages without an answer"));
            }
            before = open;
        }
        Ok(())
    }

    /// Waits until nothing more will be heard of any parcel, for as long as it takes to empty a producer.
    pub(crate) async fn wait_for_the_rest(&self, until: Instant) {
        while self.state.lock().expect("no panic while held").tickets > 0 {
            if timeout_at(until, self.all_back.notified()).await.is_err() {
                return;
            }
        }
    }

    /// How many have no verdict yet.
    pub(crate) fn open(&self) -> Result<usize, String> {
        let state = self.state.lock().expect("no panic while held");
        match &state.lost {
            Some(why) if state.open > 0 => Err(why.clone()),
            _ => Ok(state.open),
        }
    }

    /// The verdicts there are by now.
    pub(crate) fn verdicts(&self) -> Vec<Option<Verdict>> {
        self.state.lock().expect("no panic while held").verdicts.clone()
    }
}

/// Names a parcel on its way.
pub(crate) struct Ticket {
    batch: Arc<Batch>,
    index: usize,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.batch.state.lock().expect("no panic while held");
        state.tickets -= 1;
        if state.tickets == 0 {
            self.batch.all_back.notify_one();
        }
    }
}

/// Hands answers to the batches they belong to.
#[derive(Default)]
pub(crate) struct Answers(pub(crate) Voice);

impl ClientContext for Answers {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.0.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.0.error(error, reason);
    }
}

impl ProducerContext for Answers {
    type DeliveryOpaque = Box<Ticket>;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: Box<Ticket>) {
        let answer = match result {
            Ok(_) => Ok(Verdict::Accepted),
            Err((error, message)) => judge(error, message.topic()).map(Verdict::Refused),
        };
        // What is behind a message that was refused does not follow it by itself.
        let stopped = matches!(answer, Ok(Verdict::Refused(_)));
        ticket.batch.answer(ticket.index, answer);
        if stopped {
            ticket.batch.stop("a message was refused".to_owned());
        }
    }
}

/// Why the broker does not want a message; or, as the error, that it could not be asked.
pub(crate) fn judge(error: &KafkaError, exchange: &str) -> Result<String, String> {
    use RDKafkaErrorCode as Code;
    match error.rdkafka_error_code() {
        Some(Code::MessageSizeTooLarge | Code::InvalidMessageSize) => Ok(too_large_for(exchange)),
        Some(Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::InvalidTopic) => Ok(no_topic(exchange)),
        Some(code @ (Code::InvalidRecord | Code::InvalidTimestamp | Code::PolicyViolation)) => {
            Ok(format!("the topic \"{exchange}\" does not take it: {code}"))
        }
        Some(Code::PurgeQueue | Code::PurgeInflight) => Err("the connection was given up".to_owned()),
        Some(code) => Err(code.to_string()),
        None => Err(error.to_string()),
    }
}

pub(crate) fn too_large_for(exchange: &str) -> String {
    format!("it is larger than max.message.bytes of the topic \"{exchange}\"")
}

pub(crate) fn no_topic(exchange: &str) -> String {
    format!("there is no topic \"{exchange}\"; run `onceward topology declare`")
}
