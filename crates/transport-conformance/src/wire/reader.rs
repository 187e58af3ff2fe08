//! A queue that a case reads, with patience instead of hope.

use super::stand::soon;
use bytes::Bytes;
use onceward_transport::{Arrival, BrokerError, Receiver};
use std::time::{Duration, Instant};

/// How long one call waits for a message.
const A_WAIT: Duration = Duration::from_secs(1);
/// After so long without a message, none is expected.
const QUIET: Duration = Duration::from_millis(700);

pub(super) struct Reader {
    receiver: Box<dyn Receiver>,
    patience: Duration,
}

impl Reader {
    pub(super) fn new(receiver: Box<dyn Receiver>, patience: Duration) -> Self {
        Self { receiver, patience }
    }

    pub(super) async fn receive(&mut self, limit: usize, most: Duration) -> Result<Vec<Arrival>, BrokerError> {
        soon(self.patience + most, "receive", self.receiver.receive(limit, most)).await
    }

    /// One look at the queue.
    pub(super) async fn some(&mut self) -> Result<Vec<Arrival>, BrokerError> {
        self.receive(100, A_WAIT).await
    }

    /// The next `count` messages, none of them accepted.
    pub(super) async fn take(&mut self, count: usize) -> Vec<Arrival> {
        let (mut taken, until) = (Vec::with_capacity(count), Instant::now() + self.patience);
        while taken.len() < count {
            assert!(Instant::now() < until, "{} of {count} messages came", taken.len());
            let batch = self.receive(count - taken.len(), A_WAIT).await.expect("the queue can be read");
            taken.extend(batch);
        }
        assert_eq!(taken.len(), count, "receive gave more than its limit");
        taken
    }

    /// The bodies of the next `count` messages.
    pub(super) async fn bodies(&mut self, count: usize) -> Vec<String> {
        self.take(count).await.iter().map(|arrival| text(&arrival.body)).collect()
    }

    /// The bodies of everything that comes until each of `wanted` has come; they may come more than once.
    pub(super) async fn until(&mut self, wanted: &[String]) -> Vec<String> {
        let (mut bodies, until) = (Vec::new(), Instant::now() + self.patience);
        while !wanted.iter().all(|body| bodies.contains(body)) {
            assert!(Instant::now() < until, "of {wanted:?} came {bodies:?}");
            let batch = self.some().await.expect("the queue can be read");
            bodies.extend(batch.iter().map(|arrival| text(&arrival.body)));
            self.accept().await;
        }
        bodies
    }

    /// Whatever comes until nothing more does.
    pub(super) async fn rest(&mut self) -> Vec<Arrival> {
        let (mut rest, until) = (Vec::new(), Instant::now() + self.patience);
        loop {
            assert!(Instant::now() < until, "messages never stop coming");
            let batch = self.receive(100, QUIET).await.expect("the queue can be read");
            if batch.is_empty() {
                return rest;
            }
            rest.extend(batch);
        }
    }

    pub(super) async fn accept(&mut self) {
        self.try_accept().await.expect("accepted");
    }

    pub(super) async fn try_accept(&mut self) -> Result<(), BrokerError> {
        soon(self.patience, "accept", self.receiver.accept()).await
    }

    pub(super) async fn give_back(&mut self) {
        soon(self.patience, "give_back", self.receiver.give_back()).await.expect("given back");
    }
}

pub(super) fn text(body: &Bytes) -> String {
    String::from_utf8(body.to_vec()).expect("bodies of this case are text")
}

/// The numbers as bodies.
pub(super) fn texts(numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
    numbers.into_iter().map(|n| n.to_string()).collect()
}

/// Without those that came before: what the database keeps of messages that came twice.
pub(super) fn first_times(bodies: &[String]) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    bodies.iter().filter(|body| seen.insert(body.as_str())).cloned().collect()
}
