//! The state that publishers and readers share: settings, idle connections, and known facts about the server.

use crate::connection::{RedisConnection, broker_error};
use onceward_broker::{BrokerConfig, BrokerError};
use onceward_topology::Topology;
use parking_lot::Mutex;
use redis::RedisError;
use std::{
    collections::{BTreeSet, HashMap},
    future::Future,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

/// The number of idle connections kept for the next call; more are opened on demand.
const IDLE_MAX: usize = 8;

/// The owner of a lease: an id, and how often it acquired the lease.
#[derive(Clone, Debug)]
pub(crate) struct LeaseOwner {
    pub id: String,
    pub generation: u64,
}

impl LeaseOwner {
    pub fn new() -> Self {
        Self { id: Uuid::new_v4().simple().to_string(), generation: 0 }
    }

    pub fn token(&self) -> String {
        format!("{}:{}", self.id, self.generation)
    }
}

pub(crate) struct SharedState {
    pub config: BrokerConfig,
    pub topology: Topology,
    /// Handovers of dropped receivers that are still running.
    pub handovers: TaskTracker,
    idle: Mutex<Vec<RedisConnection>>,
    /// Queues whose stream was missing when it was last needed.
    missing: Mutex<BTreeSet<String>>,
    /// The last owner of each queue in this process: its lease may outlive it when the network fails.
    former_owners: Mutex<HashMap<String, LeaseOwner>>,
    closing: CancellationToken,
}

impl SharedState {
    pub fn new(config: BrokerConfig, topology: Topology) -> Self {
        Self {
            config,
            topology,
            handovers: TaskTracker::new(),
            idle: Mutex::default(),
            missing: Mutex::default(),
            former_owners: Mutex::default(),
            closing: CancellationToken::new(),
        }
    }

    /// Returns a connection for one call. After an error, drop it instead of putting it back: a reply may still be in flight.
    pub async fn connection(&self) -> Result<RedisConnection, BrokerError> {
        while let Some(mut connection) = self.pop() {
            if connection.idle_for() < self.config.heartbeat / 2
                || connection.command::<()>(&redis::cmd("PING")).await.is_ok()
            {
                return Ok(connection);
            }
        }
        RedisConnection::open(&self.config).await
    }

    /// Returns a working connection to the pool.
    pub fn put_back(&self, connection: RedisConnection) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX && !self.closing.is_cancelled() {
            idle.push(connection);
        }
    }

    /// Converts the error of a failed call. Closes the idle connections, which are likely to be dead, too.
    pub fn connection_error(&self, error: RedisError) -> BrokerError {
        self.idle.lock().clear();
        broker_error(error)
    }

    pub async fn ping(&self) -> Result<(), BrokerError> {
        let mut connection = self.connection().await?;
        connection.command::<()>(&redis::cmd("PING")).await.map_err(|error| self.connection_error(error))?;
        self.put_back(connection);
        Ok(())
    }

    pub fn note_missing(&self, queue: &str) {
        self.missing.lock().insert(queue.to_owned());
    }

    pub fn note_found(&self, queue: &str) {
        self.missing.lock().remove(queue);
    }

    pub fn was_missing(&self, queue: &str) -> bool {
        self.missing.lock().contains(queue)
    }

    /// Returns the owner to read `queue` as. A reader that lost its connection continues, without waiting for its own lease.
    pub fn owner_for(&self, queue: &str) -> LeaseOwner {
        self.former_owners.lock().remove(queue).unwrap_or_else(LeaseOwner::new)
    }

    pub fn remember_owner(&self, queue: &str, owner: LeaseOwner) {
        self.former_owners.lock().insert(queue.to_owned(), owner);
    }

    /// Runs a call, and fails early when the broker is closed.
    pub async fn unless_closed<T>(&self, call: impl Future<Output = Result<T, BrokerError>>) -> Result<T, BrokerError> {
        tokio::select! {
            biased;
            () = self.closing.cancelled() => Err(BrokerError::Unavailable("the broker was closed by this process".to_owned())),
            outcome = call => outcome,
        }
    }

    pub async fn close(&self) {
        self.closing.cancel();
        self.handovers.close();
        if tokio::time::timeout(self.config.heartbeat, self.handovers.wait()).await.is_err() {
            tracing::debug!("could not release a queue; its lease will expire");
        }
        self.idle.lock().clear();
    }

    fn pop(&self) -> Option<RedisConnection> {
        self.idle.lock().pop()
    }
}
