//! A queue that is being read.

use crate::{
    burial, entry,
    link::{Link, trouble, trouble_with},
    names::QueueNames,
    pool::{Owner, Shared},
    scripts,
    session::{self, Entry, Page, Session},
};
use async_trait::async_trait;
use onceward_transport::{Arrival, BrokerError, Reading, Receiver};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// How long a shared reader waits before it looks for entries of readers that died.
const LOOK_AROUND: Duration = Duration::from_secs(1);
/// So often a queue may be lost and taken again within one call.
const LOSSES_MAX: usize = 3;

pub(crate) struct RedisReceiver {
    shared: Arc<Shared>,
    names: QueueNames,
    reading: Reading,
    owner: Owner,
    session: Option<Session>,
    /// A second connection, which waits for entries.
    waiter: Option<Link>,
    /// The ids of what was handed out and neither accepted nor given back.
    in_hand: Vec<String>,
    /// It has read, so there is something to hand over.
    joined: bool,
}

impl RedisReceiver {
    pub async fn open(shared: Arc<Shared>, reading: Reading) -> Result<Self, BrokerError> {
        let names = QueueNames::declared(&shared.topology, &reading.queue)?;
        let owner = if reading.exclusive { shared.owner_for(&reading.queue) } else { Owner::new() };
        let mut receiver =
            Self { shared, names, reading, owner, session: None, waiter: None, in_hand: Vec::new(), joined: false };
        receiver.session = Some(receiver.begin().await?);
        Ok(receiver)
    }

    /// Everything in hand comes again in the new session.
    async fn begin(&mut self) -> Result<Session, BrokerError> {
        let session = match self.reading.exclusive {
            true => Session::alone(&self.shared, &self.names, &mut self.owner).await?,
            false => Session::together(&self.shared, &self.names, &self.owner).await?,
        };
        self.in_hand.clear();
        self.joined = true;
        Ok(session)
    }

    async fn next(&mut self, limit: usize, most: Duration) -> Result<Vec<Arrival>, BrokerError> {
        let deadline = Instant::now() + most;
        let mut losses = 0;
        while losses < LOSSES_MAX {
            // Out of its place while its answer is awaited: whoever stops waiting for it also ends the session.
            let mut session = match self.session.take() {
                Some(session) => session,
                None => self.begin().await?,
            };
            let room = limit.min(self.reading.prefetch.saturating_sub(self.in_hand.len()));
            if room == 0 {
                self.session = Some(session);
                tokio::time::sleep_until(deadline).await;
                return Ok(Vec::new());
            }
            match session.read(room, burial::delivery_limit(&self.shared.topology, &self.names.queue)).await? {
                // Others may have read and handed back meanwhile, so it begins anew; or it is theirs, and that says so.
                Page::Lost => losses += 1,
                Page::Entries { handed, spent } => {
                    if !burial::put_away(&self.shared.topology, &self.names.queue, &mut session, spent).await? {
                        losses += 1;
                        continue;
                    }
                    self.session = Some(session);
                    if !handed.is_empty() {
                        return Ok(self.hand_out(handed));
                    }
                }
                Page::Nothing { after } => {
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

    fn hand_out(&mut self, entries: Vec<Entry>) -> Vec<Arrival> {
        let arrivals = entries.into_iter().map(|(id, deliveries, fields)| {
            self.in_hand.push(id);
            entry::arrival(fields, deliveries, &self.names.queue)
        });
        arrivals.collect()
    }

    /// Until an entry comes after `after`, or it is time to look again.
    async fn wait(&mut self, after: &str, deadline: Instant) -> Result<(), BrokerError> {
        let heartbeat = self.shared.config.heartbeat;
        let look_again = if self.reading.exclusive { heartbeat / 3 } else { LOOK_AROUND.min(heartbeat / 3) };
        let most = look_again.min(deadline - Instant::now()).max(Duration::from_millis(1));
        let mut waiter = match self.waiter.take() {
            Some(waiter) => waiter,
            None => Link::open(&self.shared.config).await?,
        };
        let mut block = redis::cmd("XREAD");
        block.arg("COUNT").arg(1).arg("BLOCK").arg(most.as_millis() as u64);
        block.arg("STREAMS").arg(&self.names.stream).arg(after);
        match waiter.ask_within::<()>(most + heartbeat * 2 / 3, &block).await {
            Ok(()) => {
                self.waiter = Some(waiter);
                Ok(())
            }
            Err(error) => {
                self.session = None;
                Err(trouble(error))
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
        if self.in_hand.is_empty() {
            return Ok(());
        }
        // On any connection: what was written down may be forgotten, late or twice, whoever reads the queue now.
        let mut link = self.shared.link().await?;
        let mut accept = scripts::ACCEPT.key(&self.names.stream);
        accept.arg(&self.names.queue).arg(&self.in_hand);
        link.call::<()>(&accept).await.map_err(|error| self.shared.lost(error))?;
        self.shared.keep(link);
        self.in_hand.clear();
        Ok(())
    }

    async fn give_back(&mut self) -> Result<(), BrokerError> {
        if self.in_hand.is_empty() {
            return Ok(());
        }
        if self.reading.exclusive {
            if let Some(session) = &mut self.session {
                session.start_over();
            }
        } else {
            let stale = session::stale_after(&self.shared.config).as_millis() as u64;
            let mut free = redis::cmd("XCLAIM");
            free.arg(&self.names.stream).arg(&self.names.queue).arg(&self.owner.id).arg(0).arg(&self.in_hand);
            free.arg("IDLE").arg(stale).arg("JUSTID");
            let mut link = self.shared.link().await?;
            link.ask::<()>(&free).await.map_err(|error| trouble_with(&self.names.queue, error))?;
            self.shared.keep(link);
        }
        self.in_hand.clear();
        Ok(())
    }
}

impl Drop for RedisReceiver {
    /// The next reader gets what this one had in hand; at once if the server can be told, else when the lease runs out.
    fn drop(&mut self) {
        if self.reading.exclusive {
            self.shared.was_owner(&self.names.queue, self.owner.clone());
        }
        let (true, Ok(runtime)) = (self.joined, tokio::runtime::Handle::try_current()) else {
            return;
        };
        let (shared, names, owner) = (self.shared.clone(), self.names.clone(), self.owner.clone());
        let exclusive = self.reading.exclusive;
        self.shared.departures.spawn_on(
            async move {
                let departed = async {
                    let mut link = shared.link().await?;
                    match exclusive {
                        true => session::release(&mut link, &names, &owner).await?,
                        false => session::leave(&mut link, &shared.config, &names, &owner).await.map(|_| ())?,
                    }
                    shared.keep(link);
                    Ok::<(), BrokerError>(())
                };
                if let Err(error) = departed.await {
                    tracing::debug!(queue = names.queue, %error, "a queue could not be handed over; its lease runs out");
                }
            },
            &runtime,
        );
    }
}
