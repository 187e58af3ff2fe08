//! Whatever readers and publishers do in whatever order: only what was accepted goes.

use crate::support::*;
use onceward_transport::{Broker, Receiver};
use onceward_transport_redis::RedisBroker;
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
    in_hand: Vec<String>,
}

/// What a run did, for the rules it must keep.
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
        Reader { receiver: open(&self.broker, &self.queue, self.exclusive).await.unwrap(), in_hand: Vec::new() }
    }

    async fn receive(&mut self, reader: &mut Reader, limit: usize) -> usize {
        let came: Vec<String> =
            reader.receiver.receive(limit, Duration::ZERO).await.unwrap().iter().map(text).collect();
        assert!(came.len() <= limit);
        for body in &came {
            assert!(!self.accepted.contains(body), "{body} was accepted and came again");
        }
        self.landed.extend(came.iter().cloned());
        reader.in_hand.extend(came.iter().cloned());
        came.len()
    }

    async fn accept(&mut self, reader: &mut Reader) {
        reader.receiver.accept().await.unwrap();
        self.accepted.extend(reader.in_hand.drain(..));
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
                send(&run.broker, numbers(&run.queue, run.published..run.published + count)).await;
                run.published += count;
            }
            Step::Receive { reader, limit } => _ = run.receive(&mut readers[reader], limit).await,
            Step::Accept { reader } => run.accept(&mut readers[reader]).await,
            Step::GiveBack { reader } => {
                readers[reader].receiver.give_back().await.unwrap();
                readers[reader].in_hand.clear();
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
    tokio::time::timeout(onceward_testkit::PATIENCE, drained).await.expect("what was not accepted comes");
    let mut came = first_times(&run.landed);
    if !exclusive {
        came.sort_by_key(|body| body.parse::<u32>().unwrap());
    }
    assert_eq!(came, texts(0..run.published));
}

fn blocking(steps: Vec<Step>, exclusive: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run(steps, exclusive));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn one_reader_alone_gets_everything_in_order(steps in prop::collection::vec(step(1), 1..40)) {
        blocking(steps, true);
    }

    #[test]
    fn readers_that_share_lose_nothing(steps in prop::collection::vec(step(2), 1..40)) {
        blocking(steps, false);
    }
}
