//! Reading a queue.
//!
//! ```text
//! join ── assigned ── begin (where the group left off) ── messages … ── revoked: nothing is in hand any more
//!                                                     receive → accept (commit) or give_back (seek)
//! ```
//!
//! A partition has one reader. One that lost it, or anything else, is over: it leaves the group, and whoever reads on
//! begins with what was not committed.

use crate::{
    KafkaBroker,
    bindings::Bindings,
    births,
    connection::{Until, blocking, unavailable},
    group::{Joined, Member, Revoked, begin, grave, reading},
    hand::Hand,
};
use async_trait::async_trait;
use futures_util::FutureExt;
use onceward_transport::{Arrival, BrokerError, Reading, Receiver};
use rdkafka::{
    Message,
    consumer::{CommitMode, Consumer},
    error::KafkaResult,
};
use std::time::Duration;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep_until, timeout_at},
};

/// The longest that anything waits for a notification.
const LOOK: Duration = Duration::from_millis(200);
/// How long a new reader waits for its part of the queue before it is handed to whoever opened it.
const SETTLING: Duration = Duration::from_secs(3);
/// Records that are looked at in one go, if hardly any is for this queue.
const LOOKED_AT_MAX: usize = 2_000;
/// Polls in a row that bring no message: each may have been an event, and messages stand behind it.
const EMPTY_POLLS: u32 = 32;

/// A queue that is being read.
pub(crate) struct KafkaReceiver {
    queue: String,
    prefetch: usize,
    heartbeat: Duration,
    bindings: Bindings,
    /// Or why it is over.
    joined: Result<Joined, BrokerError>,
    hand: Hand,
    /// When something was last heard of the server.
    heard: Instant,
    asking: Option<JoinHandle<KafkaResult<()>>>,
    beginning: Option<JoinHandle<KafkaResult<()>>>,
}

impl KafkaReceiver {
    pub(crate) async fn open(broker: &KafkaBroker, wanted: Reading) -> Result<Self, BrokerError> {
        let Reading { queue, prefetch, .. } = wanted;
        if broker.topology.find_queue(&queue).is_none() {
            return Err(BrokerError::Missing(format!("queue \"{queue}\"")));
        }
        let bindings = Bindings::of(&broker.topology, &queue);
        let (settings, open) = (reading(&broker.config, &queue)?, broker.open.clone());
        let (heartbeat, limit) = (broker.config.heartbeat, broker.asking_time());
        let join = move || {
            let joined = Joined::join(&settings, &queue, &bindings, &open, Until::in_time(limit))?;
            Ok((queue, bindings, joined))
        };
        let (queue, bindings, joined) = blocking("opening a queue", limit + heartbeat, join).await?;
        let mut receiver = Self {
            queue,
            prefetch,
            heartbeat,
            bindings,
            joined: Ok(joined),
            hand: Hand::default(),
            heard: Instant::now(),
            asking: None,
            beginning: None,
        };
        receiver.settle_in().await?;
        Ok(receiver)
    }

    /// Waits a moment for its part of the queue. Others who read it may be slow to give theirs up.
    async fn settle_in(&mut self) -> Result<(), BrokerError> {
        let until = Instant::now() + SETTLING;
        while self.bindings.exchanges().next().is_some() && Instant::now() < until {
            // No message can come before anything is assigned.
            self.take(1)?;
            if self.member()?.context().is_assigned() {
                return self.begin(until).await.map(drop);
            }
            self.look_again(until).await;
        }
        Ok(())
    }

    /// Returns when there may be something to take, or by then, or after a while in any case.
    async fn look_again(&self, by: Instant) {
        if let Ok(joined) = &self.joined {
            let _ = timeout_at(by.min(Instant::now() + LOOK), joined.nonempty.notified()).await;
        }
    }

    fn member(&self) -> Result<Member, BrokerError> {
        self.joined.as_ref().map(|joined| joined.member.clone()).map_err(Clone::clone)
    }

    /// Leaves the group for good, so that what was in hand goes to whoever reads on.
    fn end(&mut self, error: BrokerError) -> BrokerError {
        (self.joined, self.hand) = (Err(error.clone()), Hand::default());
        error
    }

    /// Begins to read what the group has given us. `false`: not done by then. Nothing is polled meanwhile, so that
    /// nothing can be taken away before it was begun.
    async fn begin(&mut self, by: Instant) -> Result<bool, BrokerError> {
        let joined = self.joined.as_ref().map_err(Clone::clone)?;
        if self.beginning.is_none() {
            let Some(partitions) = joined.member.context().assigned() else {
                return Ok(true);
            };
            let (member, births) = (joined.member.clone(), joined.births.clone());
            let (queue, until) = (self.queue.clone(), Until::in_time(self.heartbeat));
            let begin = move || begin(&member, &queue, &births, partitions, until);
            self.beginning = Some(tokio::task::spawn_blocking(begin));
        }
        let Some(beginning) = &mut self.beginning else {
            return Ok(true);
        };
        let Ok(begun) = timeout_at(by, beginning).await else {
            return Ok(false);
        };
        joined.member.context().begun();
        self.beginning = None;
        match begun {
            Ok(Ok(())) => Ok(true),
            Ok(Err(error)) => Err(self.end(unavailable("finding out where to begin", error))),
            Err(error) => Err(self.end(unavailable("finding out where to begin", error))),
        }
    }

    /// What is here already, and whether that was all. Nothing is awaited, so nothing that was taken can be forgotten.
    fn take(&mut self, room: usize) -> Result<(Vec<Arrival>, bool), BrokerError> {
        let member = self.member()?;
        let lost = member.assignment_lost();
        let (mut arrivals, mut empty) = (Vec::new(), 0);
        for _ in 0..LOOKED_AT_MAX {
            if arrivals.len() == room || empty == EMPTY_POLLS || member.context().is_assigned() {
                return Ok((arrivals, true));
            }
            match member.poll(Duration::ZERO) {
                // Somebody else reads it by now.
                Some(Ok(_)) if lost => {}
                Some(Ok(record)) => {
                    (self.heard, empty) = (Instant::now(), 0);
                    let (topic, partition, offset) = (record.topic(), record.partition(), record.offset());
                    match self.bindings.arrival(&record) {
                        Some(arrival) => {
                            self.hand.take(topic, partition, offset);
                            arrivals.push(arrival);
                        }
                        None => self.hand.pass_over(topic, partition, offset),
                    }
                }
                Some(Err(error)) => {
                    if let Some(error) = grave(&error, &self.queue) {
                        return Err(self.end(error));
                    }
                }
                None => empty += 1,
            }
            match member.context().revoked() {
                None => {}
                Some(Revoked::Asked) => {
                    self.hand = Hand::default();
                    arrivals.clear();
                }
                Some(Revoked::Lost) => return Err(self.end(unavailable("reading", "the queue went to other readers"))),
            }
        }
        Ok((arrivals, false))
    }

    /// A server from which nothing came for a while is asked for something. It answers in time, or it is lost.
    fn look_for_life(&mut self) -> Result<(), BrokerError> {
        let patience = self.heartbeat / 2;
        match self.asking.take() {
            None if self.heard.elapsed() >= patience => {
                let member = self.member()?;
                let ask = move || member.fetch_metadata(Some(births::TOPIC), patience).map(drop);
                self.asking = Some(tokio::task::spawn_blocking(ask));
            }
            None => {}
            Some(mut asked) => match (&mut asked).now_or_never() {
                None => self.asking = Some(asked),
                Some(Ok(Ok(()))) => self.heard = Instant::now(),
                Some(Ok(Err(error))) => {
                    let error = unavailable("no answer", self.member()?.context().reason(error));
                    return Err(self.end(error));
                }
                Some(Err(error)) => return Err(self.end(unavailable("no answer", error))),
            },
        }
        Ok(())
    }

    /// Nobody accepts what was handed to nobody.
    fn tell_what_was_passed_over(&mut self) {
        if let (0, Ok(offsets), Ok(member)) = (self.hand.held(), self.hand.untold(), self.member())
            && offsets.count() > 0
            && member.commit(&offsets, CommitMode::Async).is_ok()
        {
            self.hand.accepted();
        }
    }
}

#[async_trait]
impl Receiver for KafkaReceiver {
    async fn receive(&mut self, limit: usize, most: Duration) -> Result<Vec<Arrival>, BrokerError> {
        let until = Instant::now() + most;
        let room = limit.min(self.prefetch.saturating_sub(self.hand.held()));
        if room == 0 {
            sleep_until(until).await;
            return Ok(Vec::new());
        }
        while self.begin(until).await? {
            let (arrivals, all) = self.take(room)?;
            if !arrivals.is_empty() {
                return Ok(arrivals);
            }
            self.look_for_life()?;
            if Instant::now() >= until {
                self.tell_what_was_passed_over();
                break;
            }
            if all {
                self.look_again(until).await;
            } else {
                tokio::task::yield_now().await;
            }
        }
        Ok(Vec::new())
    }

    async fn accept(&mut self) -> Result<(), BrokerError> {
        let member = self.member()?;
        let offsets = self.hand.untold().map_err(|error| unavailable("accepting", error))?;
        if offsets.count() > 0 {
            let commit = move || {
                let committed = member.commit(&offsets, CommitMode::Sync);
                committed.map_err(|error| unavailable("accepting", error))
            };
            blocking("accepting", self.heartbeat, commit).await.map_err(|error| self.end(error))?;
        }
        self.hand.accepted();
        Ok(())
    }

    async fn give_back(&mut self) -> Result<(), BrokerError> {
        let offsets = self.hand.back().map_err(|error| unavailable("giving back", error))?;
        if offsets.count() > 0 {
            // Whoever does not wait for it to be done leaves the group, and everything comes again.
            let not_waited_for = Err(unavailable("giving back", "it was not waited for"));
            let joined = std::mem::replace(&mut self.joined, not_waited_for)?;
            let (member, limit) = (joined.member.clone(), self.heartbeat);
            let seek = move || {
                let sought = member.seek_partitions(offsets, limit);
                let all = sought.and_then(|places| places.elements().iter().try_for_each(|place| place.error()));
                all.map_err(|error| unavailable("giving back", error))
            };
            blocking("giving back", limit, seek).await.map_err(|error| self.end(error))?;
            self.joined = Ok(joined);
        }
        self.hand.given_back();
        Ok(())
    }
}
