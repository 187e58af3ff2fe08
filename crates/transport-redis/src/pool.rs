//! What the publishers and readers of a process share: settings, idle connections, and what they know of the server.

use crate::link::{Link, trouble};
use onceward_topology::Topology;
use onceward_transport::{BrokerConfig, BrokerError};
use redis::RedisError;
use std::{
    collections::{BTreeSet, HashMap},
    future::Future,
    sync::{Mutex, MutexGuard},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

/// Connections kept for the next call; more are opened when more are needed at once.
const IDLE_MAX: usize = 8;

/// Who holds a lease: an id, and how often it took the lease.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub id: String,
    pub generation: u64,
}

impl Owner {
    pub fn new() -> Self {
        Self { id: Uuid::new_v4().simple().to_string(), generation: 0 }
    }

    pub fn token(&self) -> String {
        format!("{}:{}", self.id, self.generation)
    }
}

pub(crate) struct Shared {
    pub config: BrokerConfig,
    pub topology: Topology,
    /// Hand-overs of receivers that were dropped.
    pub departures: TaskTracker,
    idle: Mutex<Vec<Link>>,
    /// Queues whose stream was not there when it was needed.
    missing: Mutex<BTreeSet<String>>,
    /// By queue, the owner that last read it here: its lease may outlive it when the network fails.
    former_owners: Mutex<HashMap<String, Owner>>,
    closing: CancellationToken,
}

impl Shared {
    pub fn new(config: BrokerConfig, topology: Topology) -> Self {
        Self {
            config,
            topology,
            departures: TaskTracker::new(),
            idle: Mutex::default(),
            missing: Mutex::default(),
            former_owners: Mutex::default(),
            closing: CancellationToken::new(),
        }
    }

    /// A connection for one call. Who could not use it to the end drops it, and with it whatever is still on its way.
    pub async fn link(&self) -> Result<Link, BrokerError> {
        while let Some(mut link) = self.pop() {
            if link.silent_for() < self.config.heartbeat / 2 || link.ask::<()>(&redis::cmd("PING")).await.is_ok() {
                return Ok(link);
            }
        }
        Link::open(&self.config).await
    }

    /// Keeps a connection that works for the next call.
    pub fn keep(&self, link: Link) {
        let mut idle = held(&self.idle);
        if idle.len() < IDLE_MAX && !self.closing.is_cancelled() {
            idle.push(link);
        }
    }

    /// A call failed: the other connections are likely to be as dead, and are not worth a wait each.
    pub fn lost(&self, error: RedisError) -> BrokerError {
        held(&self.idle).clear();
        trouble(error)
    }

    pub async fn ping(&self) -> Result<(), BrokerError> {
        let mut link = self.link().await?;
        link.ask::<()>(&redis::cmd("PING")).await.map_err(|error| self.lost(error))?;
        self.keep(link);
        Ok(())
    }

    pub fn note_missing(&self, queue: &str) {
        held(&self.missing).insert(queue.to_owned());
    }

    pub fn note_found(&self, queue: &str) {
        held(&self.missing).remove(queue);
    }

    pub fn was_missing(&self, queue: &str) -> bool {
        held(&self.missing).contains(queue)
    }

    /// The owner to read `queue` as. One that was lost with its connection goes on, instead of waiting for its own lease.
    pub fn owner_for(&self, queue: &str) -> Owner {
        held(&self.former_owners).remove(queue).unwrap_or_else(Owner::new)
    }

    pub fn was_owner(&self, queue: &str, owner: Owner) {
        held(&self.former_owners).insert(queue.to_owned(), owner);
    }

    /// Ends early when the bus is closed.
    pub async fn unless_closed<T>(&self, call: impl Future<Output = Result<T, BrokerError>>) -> Result<T, BrokerError> {
        tokio::select! {
            biased;
            () = self.closing.cancelled() => Err(BrokerError::Unavailable("it was closed on this side".to_owned())),
            outcome = call => outcome,
        }
    }

    pub async fn close(&self) {
        self.closing.cancel();
        self.departures.close();
        if tokio::time::timeout(self.config.heartbeat, self.departures.wait()).await.is_err() {
            tracing::debug!("a queue could not be handed over; its lease runs out by itself");
        }
        held(&self.idle).clear();
    }

    fn pop(&self) -> Option<Link> {
        held(&self.idle).pop()
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics while holding it")
}
