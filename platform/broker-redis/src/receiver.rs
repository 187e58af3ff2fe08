//! Consuming a queue.

use crate::{
    connection::{RedisConnection, broker_error, queue_error},
    dead_letter, entry,
    names::QueueNames,
    pool::{LeaseOwner, SharedState},
    scripts,
    session::{self, DeliveredEntry, ReadResult, ReaderSession},
};
use async_trait::async_trait;
use onceward_broker::{Arrival, BrokerError, ReceiveOptions, Receiver};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// How often a shared reader checks for entries of readers that died.
const STALE_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How often a queue may be lost and acquired again within one call.
const LOSSES_MAX: usize = 3;

pub(crate) struct RedisReceiver {
    shared: Arc<SharedState>,
    names: QueueNames,
    reading: ReceiveOptions,
    owner: LeaseOwner,
    session: Option<ReaderSession>,
    /// A second connection, which blocks until entries arrive.
    waiter: Option<RedisConnection>,
    /// The ids of entries delivered and neither accepted nor given back.
    unaccepted: Vec<String>,
    /// A session was opened, so there is a lease or a consumer to release.
    has_joined: bool,
}

impl RedisReceiver {
    pub async fn open(shared: Arc<SharedState>, reading: ReceiveOptions) -> Result<Self, BrokerError> {
        let names = QueueNames::declared(&shared.topology, &reading.queue)?;
        let owner = if reading.exclusive { shared.owner_for(&reading.queue) } else { LeaseOwner::new() };
        let mut receiver = Self {
            shared,
            names,
            reading,
            owner,
            session: None,
            waiter: None,
            unaccepted: Vec::new(),
            has_joined: false,
        };
        receiver.session = Some(receiver.open_session().await?);
        Ok(receiver)
    }

    /// Opens a session, in which all unaccepted entries are delivered again.
    async fn open_session(&mut self) -> Result<ReaderSession, BrokerError> {
        let session = match self.reading.exclusive {
            true => ReaderSession::exclusive(&self.shared, &self.names, &mut self.owner).await?,
            false => ReaderSession::shared(&self.shared, &self.names, &self.owner).await?,
        };
        self.unaccepted.clear();
        self.has_joined = true;
        Ok(session)
    }

    async fn next(&mut self, limit: usize, most: Duration) -> Result<Vec<Arrival>, BrokerError> {
        let deadline = Instant::now() + most;
        let mut losses = 0;
        while losses < LOSSES_MAX {
            // Taken out while a reply is awaited, so that cancelling this call also ends the session.
            let mut session = match self.session.take() {
                Some(session) => session,
                None => self.open_session().await?,
            };
            let room = limit.min(self.reading.prefetch.saturating_sub(self.unaccepted.len()));
            if room == 0 {
                self.session = Some(session);
                tokio::time::sleep_until(deadline).await;
                return Ok(Vec::new());
            }
            match session.read(room, dead_letter::delivery_limit(&self.shared.topology, &self.names.queue)).await? {
                // Another reader may have read and released the queue meanwhile, so open a new session; it fails if not released.
                ReadResult::Lost => losses += 1,
                ReadResult::Entries { delivered, exhausted } => {
                    if !dead_letter::move_exhausted(&self.shared.topology, &self.names.queue, &mut session, exhausted)
                        .await?
                    {
                        losses += 1;
                        continue;
                    }
                    self.session = Some(session);
                    if !delivered.is_empty() {
                        return Ok(self.deliver(delivered));
                    }
                }
                ReadResult::Empty { after } => {
                    self.session = Some(session);
                    if Instant::now() >= deadline {
                        return Ok(Vec::new());
                    }
                    self.wait(&after, deadline).await?;
                }
            }
        }
        Err(BrokerError::Taken(self.names.queue.clone()))
    }

    fn deliver(&mut self, entries: Vec<DeliveredEntry>) -> Vec<Arrival> {
        let arrivals = entries.into_iter().map(|(id, deliveries, fields)| {
            self.unaccepted.push(id);
            entry::arrival(fields, deliveries, &self.names.queue)
        });
        arrivals.collect()
    }

    /// Waits until an entry after `after` arrives, or until the next check is due.
    async fn wait(&mut self, after: &str, deadline: Instant) -> Result<(), BrokerError> {
        let heartbeat = self.shared.config.heartbeat;
        let next_check = if self.reading.exclusive { heartbeat / 3 } else { STALE_CHECK_INTERVAL.min(heartbeat / 3) };
        let most = next_check.min(deadline - Instant::now()).max(Duration::from_millis(1));
        let mut waiter = match self.waiter.take() {
            Some(waiter) => waiter,
            None => RedisConnection::open(&self.shared.config).await?,
        };
        let mut block = redis::cmd("XREAD");
        block.arg("COUNT").arg(1).arg("BLOCK").arg(most.as_millis() as u64);
        block.arg("STREAMS").arg(&self.names.stream).arg(after);
        match waiter.command_within::<()>(most + heartbeat * 2 / 3, &block).await {
            Ok(()) => {
                self.waiter = Some(waiter);
                Ok(())
            }
            Err(error) => {
                self.session = None;
                Err(broker_error(error))
            }
        }
    }
}

#[async_trait]
impl Receiver for RedisReceiver {
    async fn receive(&mut self, limit: usize, most: Duration) -> Result<Vec<Arrival>, BrokerError> {
        let shared = self.shared.clone();
        shared.unless_closed(self.next(limit, most)).await
    }

    async fn accept(&mut self) -> Result<(), BrokerError> {
        if self.unaccepted.is_empty() {
            return Ok(());
        }
        // On any connection: stored entries may be deleted late or twice, even if another reader has the queue now.
        let mut connection = self.shared.connection().await?;
        let mut accept = scripts::ACCEPT.key(&self.names.stream);
        accept.arg(&self.names.queue).arg(&self.unaccepted);
        connection.script::<()>(&accept).await.map_err(|error| self.shared.connection_error(error))?;
        self.shared.put_back(connection);
        self.unaccepted.clear();
        Ok(())
    }

    async fn return_unaccepted(&mut self) -> Result<(), BrokerError> {
        if self.unaccepted.is_empty() {
            return Ok(());
        }
        if self.reading.exclusive {
            if let Some(session) = &mut self.session {
                session.redeliver_pending();
            }
        } else {
            let stale = session::stale_after(&self.shared.config).as_millis() as u64;
            let mut free = redis::cmd("XCLAIM");
            free.arg(&self.names.stream).arg(&self.names.queue).arg(&self.owner.id).arg(0).arg(&self.unaccepted);
            free.arg("IDLE").arg(stale).arg("JUSTID");
            let mut connection = self.shared.connection().await?;
            connection.command::<()>(&free).await.map_err(|error| queue_error(&self.names.queue, error))?;
            self.shared.put_back(connection);
        }
        self.unaccepted.clear();
        Ok(())
    }
}

impl Drop for RedisReceiver {
    /// Releases the queue, so that the next reader gets the unaccepted entries at once; otherwise when the lease expires.
    fn drop(&mut self) {
        if self.reading.exclusive {
            self.shared.remember_owner(&self.names.queue, self.owner.clone());
        }
        let (true, Ok(runtime)) = (self.has_joined, tokio::runtime::Handle::try_current()) else {
            return;
        };
        let (shared, names, owner) = (self.shared.clone(), self.names.clone(), self.owner.clone());
        let exclusive = self.reading.exclusive;
        self.shared.handovers.spawn_on(
            async move {
                let handed_over = async {
                    let mut connection = shared.connection().await?;
                    match exclusive {
                        true => session::release_lease(&mut connection, &names, &owner).await?,
                        false => {
                            session::leave_group(&mut connection, &shared.config, &names, &owner).await.map(|_| ())?
                        }
                    }
                    shared.put_back(connection);
                    Ok::<(), BrokerError>(())
                };
                if let Err(error) = handed_over.await {
                    tracing::debug!(queue = names.queue, %error, "could not release a queue; its lease will expire");
                }
            },
            &runtime,
        );
    }
}
