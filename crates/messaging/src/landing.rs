//! Landing: takes messages off an external bus and writes them into the lanes of their queue.
//!
//! One receiver a queue lands whole batches in one commit each and only then lets the broker forget them. No handler
//! runs in between, so a slow one never holds up the bus, and a message that kills its worker cannot kill the receiver.

use crate::{consumer::worker::Pause, measure};
use onceward_transport::{Arrival, Broker, BrokerError, Reading, Receiver, TransportError};
use onceward_transport_postgres::{
    PostgresTransport,
    land::{self, Landed},
};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// How long one look for messages lasts.
const LOOK: Duration = Duration::from_secs(1);
/// How long to wait before asking again for a queue that another process reads.
const TAKEN_WAIT: Duration = Duration::from_millis(500);

/// A queue that is to be brought home.
#[derive(Clone, Debug)]
pub struct Landing {
    /// Who reads it.
    pub consumer: String,
    /// The queue.
    pub queue: String,
    /// The order of keys matters, so one process at a time receives.
    pub ordered: bool,
    /// Messages on their way without having landed.
    pub prefetch: usize,
}

impl Landing {
    /// Lands until `stop`. What has not landed by then is handed back to the broker.
    pub async fn run(self, lanes: PostgresTransport, broker: Arc<dyn Broker>, stop: CancellationToken) {
        let mut pause = Pause::default();
        while !stop.is_cancelled() {
            let reading =
                Reading { queue: self.queue.clone(), exclusive: self.ordered, prefetch: self.prefetch.max(1) };
            let ended = match broker.open(reading).await {
                Ok(receiver) => {
                    pause.reset();
                    self.receive(receiver, &lanes, &stop).await
                }
                Err(error) => Err(error),
            };
            match ended {
                Ok(()) => {}
                Err(BrokerError::Taken(_)) => {
                    tokio::select! { () = tokio::time::sleep(TAKEN_WAIT) => {}, () = stop.cancelled() => {} }
                }
                Err(error) => pause.after_bus(&self.queue, &error, &stop).await,
            }
        }
    }

    async fn receive(
        &self,
        mut receiver: Box<dyn Receiver>,
        lanes: &PostgresTransport,
        stop: &CancellationToken,
    ) -> Result<(), BrokerError> {
        // Half of what may be on its way: the other half arrives while this one lands.
        let limit = self.prefetch.div_ceil(2).max(1);
        while !stop.is_cancelled() {
            let arrivals = tokio::select! {
                arrivals = receiver.receive(limit, LOOK) => arrivals?,
                () = stop.cancelled() => break,
            };
            if arrivals.is_empty() {
                continue;
            }
            let Some(landed) = self.land(lanes, &arrivals, stop).await else {
                break;
            };
            receiver.accept().await?;
            measure::landed(&self.queue, landed.received, landed.malformed);
        }
        Ok(())
    }

    /// Tries until it is done; `None` if told to stop meanwhile.
    async fn land(&self, lanes: &PostgresTransport, arrivals: &[Arrival], stop: &CancellationToken) -> Option<Landed> {
        let mut pause = Pause::default();
        while !stop.is_cancelled() {
            let landed = async {
                let queue = lanes.routes().queue(&self.queue).await?;
                land::land(lanes, &self.consumer, &queue, arrivals).await
            };
            match landed.await {
                Ok(landed) => return Some(landed),
                Err(error) => pause.after(&self.consumer, &error, stop).await,
            }
        }
        None
    }
}

impl Pause {
    async fn after_bus(&mut self, queue: &str, error: &BrokerError, stop: &CancellationToken) {
        self.after(queue, &TransportError::Bus(error.clone()), stop).await;
    }
}
