//! Landing: receives messages from an external bus and writes them into the lanes of their queue.
//!
//! One receiver per queue lands whole batches in one commit each and only then acknowledges them to the broker. No
//! handler runs in between, so a slow one never blocks the bus, and a message that kills its worker cannot kill the
//! receiver.

use crate::{backoff::Backoff, measure};
use onceward_broker::{Arrival, Broker, BrokerError, ReceiveOptions, Receiver};
use onceward_message_log::{
    BusError, MessageLog,
    land::{self, LandedBatch, ReceiverProgress},
};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// How long one receive call waits for messages.
const RECEIVE_WAIT: Duration = Duration::from_secs(1);
/// How long to wait before trying again to open a queue that another process reads.
const TAKEN_WAIT: Duration = Duration::from_millis(500);

/// A queue whose messages are landed.
#[derive(Clone, Debug)]
pub struct Landing {
    /// The consumer that reads it.
    pub consumer: String,
    /// The queue.
    pub queue: String,
    /// Whether the order of keys matters, so that only one process at a time may receive.
    pub ordered: bool,
    /// The maximum number of messages in flight that have not landed.
    pub prefetch: usize,
}

impl Landing {
    /// Lands until `stop`, restarting after a panic. Messages that have not landed by then are returned to the broker.
    pub async fn run(self, log: MessageLog, broker: Arc<dyn Broker>, stop: CancellationToken) {
        let work = || async {
            self.receive_all(&log, broker.as_ref(), &stop).await;
            Ok(())
        };
        log.supervisor().keep_running(&format!("landing:{}", self.queue), &stop, work).await;
    }

    async fn receive_all(&self, log: &MessageLog, broker: &dyn Broker, stop: &CancellationToken) {
        let mut backoff = Backoff::default();
        let counted = !broker.capabilities().reports_age;
        while !stop.is_cancelled() {
            let options =
                ReceiveOptions { queue: self.queue.clone(), exclusive: self.ordered, prefetch: self.prefetch.max(1) };
            let ended = match broker.open(options).await {
                Ok(receiver) => {
                    backoff.reset();
                    self.receive(receiver, log, counted, stop).await
                }
                Err(error) => Err(error),
            };
            match ended {
                Ok(()) => {}
                Err(BrokerError::Taken(_)) => {
                    tokio::select! { () = tokio::time::sleep(TAKEN_WAIT) => {}, () = stop.cancelled() => {} }
                }
                Err(error) => backoff.pause_after(&self.queue, &BusError::Bus(error), stop).await,
            }
        }
    }

    async fn receive(
        &self,
        mut receiver: Box<dyn Receiver>,
        log: &MessageLog,
        is_counted: bool,
        stop: &CancellationToken,
    ) -> Result<(), BrokerError> {
        // Half of the prefetch: the other half arrives while this one lands.
        let limit = self.prefetch.div_ceil(2).max(1);
        while !stop.is_cancelled() {
            let arrivals = tokio::select! {
                arrivals = receiver.receive(limit, RECEIVE_WAIT) => arrivals?,
                () = stop.cancelled() => break,
            };
            if arrivals.is_empty() {
                continue;
            }
            let progress = ReceiverProgress { positions: receiver.take_positions(), is_counted };
            let span = tracing::info_span!(parent: None, "land", queue = %self.queue, messages = arrivals.len());
            crate::spans::link_to(&span, arrivals.iter().filter_map(Arrival::trace));
            let Some(landed) = self.land(log, &arrivals, &progress, stop).instrument(span).await else {
                break;
            };
            receiver.accept().await?;
            measure::landed(&self.queue, landed.received, landed.malformed);
        }
        Ok(())
    }

    /// Retries until it succeeds; returns `None` if stopped meanwhile.
    async fn land(
        &self,
        log: &MessageLog,
        arrivals: &[Arrival],
        progress: &ReceiverProgress,
        stop: &CancellationToken,
    ) -> Option<LandedBatch> {
        let mut backoff = Backoff::default();
        while !stop.is_cancelled() {
            let landed = async {
                let queue = log.router().queue(&self.queue).await?;
                land::land(log, &self.consumer, &queue, arrivals, progress).await
            };
            match landed.await {
                Ok(landed) => return Some(landed),
                Err(error) => backoff.pause_after(&self.consumer, &error, stop).await,
            }
        }
        None
    }
}
