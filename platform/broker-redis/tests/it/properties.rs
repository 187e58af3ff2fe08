//! Random steps of readers and publishers: only accepted messages are deleted.

use crate::support::*;
use onceward_broker::{Broker, Receiver};
use onceward_broker_redis::RedisBroker;
use proptest::prelude::*;
use std::{collections::HashSet, sync::Arc, time::Duration};

#[derive(Clone, Debug)]
enum Step {
    Publish(u32),
    Receive { reader: usize, limit: usize },
    Accept { reader: usize },
    GiveBack { reader: usize },
    Reopen { reader: usize },
}

fn step(readers: usize) -> impl Strategy<Value = Step> {
    let reader = move || 0..readers;
    prop_oneof![
        3 => (1..6_u32).prop_map(Step::Publish),
        4 => (reader(), 1..8_usize).prop_map(|(reader, limit)| Step::Receive { reader, limit }),
        3 => reader().prop_map(|reader| Step::Accept { reader }),
        1 => reader().prop_map(|reader| Step::GiveBack { reader }),
        1 => reader().prop_map(|reader| Step::Reopen { reader }),
    ]
}

struct Reader {
    receiver: Box<dyn Receiver>,
    unaccepted: Vec<String>,
}

/// The history of a run, which the invariants are checked against.
struct Run {
    queue: String,
    broker: Arc<RedisBroker>,
    exclusive: bool,
    published: u32,
    landed: Vec<String>,
    accepted: HashSet<String>,
}

impl Run {
    async fn open(&self) -> Reader {
        Reader { receiver: open(&self.broker, &self.queue, self.exclusive).await.unwrap(), unaccepted: Vec::new() }
    }

    async fn receive(&mut self, reader: &mut Reader, limit: usize) -> usize {
        let received: Vec<String> =
            reader.receiver.receive(limit, Duration::ZERO).await.unwrap().iter().map(text).collect();
        assert!(received.len() <= limit);
        for body in &received {
            assert!(!self.accepted.contains(body), "{body} was accepted and received again");
        }
        self.landed.extend(received.iter().cloned());
        reader.unaccepted.extend(received.iter().cloned());
        received.len()
    }

    async fn accept(&mut self, reader: &mut Reader) {
        reader.receiver.accept().await.unwrap();
        self.accepted.extend(reader.unaccepted.drain(..));
        let left = u64::from(self.published) - self.accepted.len() as u64;
        assert_eq!(self.broker.waiting(&self.queue).await.unwrap(), Some(left));
    }
}

async fn run(steps: Vec<Step>, exclusive: bool) {
    let (queue, broker) = declared("trimmed").await;
    let mut run = Run { queue, broker, exclusive, published: 0, landed: Vec::new(), accepted: HashSet::new() };
    let mut readers = Vec::new();
    for _ in 0..if exclusive { 1 } else { 2 } {
        readers.push(run.open().await);
    }
    for step in steps {
        match step {
            Step::Publish(count) => {
                send(&run.broker, numbered_parcels(&run.queue, run.published..run.published + count)).await;
                run.published += count;
            }
            Step::Receive { reader, limit } => _ = run.receive(&mut readers[reader], limit).await,
            Step::Accept { reader } => run.accept(&mut readers[reader]).await,
            Step::GiveBack { reader } => {
                readers[reader].receiver.return_unaccepted().await.unwrap();
                readers[reader].unaccepted.clear();
            }
            Step::Reopen { reader } => {
                drop(readers.remove(reader));
                readers.insert(reader, run.open().await);
            }
        }
    }
    for reader in &mut readers {
        run.accept(reader).await;
    }
    let drained = async {
        while run.accepted.len() < run.published as usize {
            run.receive(&mut readers[0], 10).await;
            run.accept(&mut readers[0]).await;
        }
    };
    tokio::time::timeout(onceward_testkit::PATIENCE, drained).await.expect("unaccepted messages are delivered");
    let mut received = without_repeats(&run.landed);
    if !exclusive {
        received.sort_by_key(|body| body.parse::<u32>().unwrap());
    }
    assert_eq!(received, texts(0..run.published));
}

fn blocking(steps: Vec<Step>, exclusive: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run(steps, exclusive));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn an_exclusive_reader_receives_everything_in_order(steps in prop::collection::vec(step(1), 1..40)) {
        blocking(steps, true);
    }

    #[test]
    fn shared_readers_lose_nothing(steps in prop::collection::vec(step(2), 1..40)) {
        blocking(steps, false);
    }
}
