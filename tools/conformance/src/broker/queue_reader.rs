//! A queue that a case reads, with a time limit on every call.

use super::fixture::within;
use bytes::Bytes;
use onceward_broker::{Arrival, BrokerError, Receiver};
use std::time::{Duration, Instant};

/// How long one call waits for a message.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(1);
/// After this long without a message, none is expected.
const QUIET: Duration = Duration::from_millis(700);

pub(super) struct ConformanceReader {
    receiver: Box<dyn Receiver>,
    timeout: Duration,
}

impl ConformanceReader {
    pub(super) fn new(receiver: Box<dyn Receiver>, timeout: Duration) -> Self {
        Self { receiver, timeout }
    }

    pub(super) async fn receive(&mut self, limit: usize, timeout: Duration) -> Result<Vec<Arrival>, BrokerError> {
        within(self.timeout + timeout, "receive", self.receiver.receive(limit, timeout)).await
    }

    /// Receives once, and returns whatever arrives.
    pub(super) async fn receive_once(&mut self) -> Result<Vec<Arrival>, BrokerError> {
        self.receive(100, RECEIVE_TIMEOUT).await
    }

    /// Returns the next `count` messages without accepting them.
    pub(super) async fn take(&mut self, count: usize) -> Vec<Arrival> {
        let (mut taken, deadline) = (Vec::with_capacity(count), Instant::now() + self.timeout);
        while taken.len() < count {
            assert!(Instant::now() < deadline, "only {} of {count} messages arrived", taken.len());
            let batch = self.receive(count - taken.len(), RECEIVE_TIMEOUT).await.expect("the queue can be read");
            taken.extend(batch);
        }
        assert_eq!(taken.len(), count, "receive returned more than its limit");
        taken
    }

    /// Returns the bodies of the next `count` messages.
    pub(super) async fn bodies(&mut self, count: usize) -> Vec<String> {
        self.take(count).await.iter().map(|arrival| text(&arrival.body)).collect()
    }

    /// Returns the bodies of all messages until each of `wanted` has arrived; they may arrive more than once.
    pub(super) async fn bodies_until(&mut self, wanted: &[String]) -> Vec<String> {
        let (mut bodies, deadline) = (Vec::new(), Instant::now() + self.timeout);
        while !wanted.iter().all(|body| bodies.contains(body)) {
            assert!(Instant::now() < deadline, "of {wanted:?} only {bodies:?} arrived");
            let batch = self.receive_once().await.expect("the queue can be read");
            bodies.extend(batch.iter().map(|arrival| text(&arrival.body)));
            self.accept().await;
        }
        bodies
    }

    /// Returns all messages until no more arrive.
    pub(super) async fn take_rest(&mut self) -> Vec<Arrival> {
        let (mut rest, deadline) = (Vec::new(), Instant::now() + self.timeout);
        loop {
            assert!(Instant::now() < deadline, "messages never stop arriving");
            let batch = self.receive(100, QUIET).await.expect("the queue can be read");
            if batch.is_empty() {
                return rest;
            }
            rest.extend(batch);
        }
    }

    pub(super) async fn accept(&mut self) {
        self.try_accept().await.expect("the messages can be accepted");
    }

    pub(super) async fn try_accept(&mut self) -> Result<(), BrokerError> {
        within(self.timeout, "accept", self.receiver.accept()).await
    }

    pub(super) async fn return_unaccepted(&mut self) {
        within(self.timeout, "give_back", self.receiver.return_unaccepted())
            .await
            .expect("the messages can be returned");
    }
}

pub(super) fn text(body: &Bytes) -> String {
    String::from_utf8(body.to_vec()).expect("bodies of this case are text")
}

/// Returns the numbers as bodies.
pub(super) fn texts(numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
    numbers.into_iter().map(|n| n.to_string()).collect()
}

/// Removes duplicates, as the database does with messages that arrive twice.
pub(super) fn without_duplicates(bodies: &[String]) -> Vec<String> {
    let mut known = std::collections::HashSet::new();
    bodies.iter().filter(|body| known.insert(body.as_str())).cloned().collect()
}
