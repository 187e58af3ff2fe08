//! A reader's time on one connection. What was handed out is known for certain as long as it lasts; after anything
//! uncertain a new one begins, with everything that was not accepted.

use crate::{
    link::{Link, trouble_with},
    names::QueueNames,
    pool::{Owner, Shared},
    scripts,
};
use onceward_transport::{BrokerConfig, BrokerError};
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

/// The name in the group of whoever reads a queue alone. It is the same for all of them: what one had in hand, the next has.
const ALONE: &str = "exclusive";
/// A reading stops at about so many bytes.
const READ_BYTES: usize = 4 * 1024 * 1024;
/// The oldest pending entry.
const FROM_THE_START: &str = "-";

/// An entry that was handed out: its id, how often it was before, its names and values.
pub(crate) type Entry = (String, u32, Vec<Vec<u8>>);

pub(crate) struct Session {
    pub link: Link,
    names: QueueNames,
    consumer: String,
    /// Empty if reading is shared.
    token: String,
    idle: Duration,
    lease: Duration,
    /// Where the entries begin that are to be handed out again; none if there are no more.
    pending_from: Option<String>,
    /// Extends the lease.
    _renewal: Option<AbortOnDropHandle<()>>,
}

/// What a reading gave.
pub(crate) enum Page {
    /// Entries to hand out, and entries that were handed out often enough.
    Entries { handed: Vec<Entry>, spent: Vec<Entry> },
    /// There is nothing; what comes will have a greater id.
    Nothing { after: String },
    /// Somebody else reads the queue now, or did meanwhile.
    Lost,
}

impl Session {
    /// Takes a queue for one reader alone.
    pub async fn alone(shared: &Shared, names: &QueueNames, owner: &mut Owner) -> Result<Self, BrokerError> {
        let mut link = Link::open(&shared.config).await?;
        owner.generation += 1;
        let lease = shared.config.heartbeat;
        let mut take = scripts::TAKE.key(&names.stream);
        take.key(&names.lease).arg(&names.queue).arg(&owner.id).arg(owner.generation).arg(millis(lease));
        if !link.call::<bool>(&take).await.map_err(|error| trouble_with(&names.queue, error))? {
            return Err(BrokerError::Taken(names.queue.clone()));
        }
        let renewal = tokio::spawn(extend(link.clone(), names.lease.clone(), owner.token(), lease));
        Ok(Self {
            link,
            names: names.clone(),
            consumer: ALONE.to_owned(),
            token: owner.token(),
            idle: Duration::ZERO,
            lease,
            pending_from: Some(FROM_THE_START.to_owned()),
            _renewal: Some(AbortOnDropHandle::new(renewal)),
        })
    }

    /// Joins the readers of a queue. What this reader had in hand on an earlier connection may be claimed by all.
    pub async fn together(shared: &Shared, names: &QueueNames, owner: &Owner) -> Result<Self, BrokerError> {
        let mut link = Link::open(&shared.config).await?;
        if !leave(&mut link, &shared.config, names, owner).await? {
            return Err(BrokerError::Taken(names.queue.clone()));
        }
        Ok(Self {
            link,
            names: names.clone(),
            consumer: owner.id.clone(),
            token: String::new(),
            idle: stale_after(&shared.config),
            lease: shared.config.heartbeat,
            pending_from: Some(FROM_THE_START.to_owned()),
            _renewal: None,
        })
    }

    /// Reads up to `room` entries. Unless this ends with an answer, the session is over.
    pub async fn read(&mut self, room: usize, delivery_limit: u16) -> Result<Page, BrokerError> {
        let mut read = scripts::READ.key(&self.names.stream);
        read.key(&self.names.lease).arg(&self.names.queue).arg(&self.consumer).arg(&self.token);
        read.arg(millis(self.lease)).arg(room).arg(READ_BYTES).arg(delivery_limit);
        read.arg(self.pending_from.as_deref().unwrap_or_default()).arg(millis(self.idle));
        type Answer = (String, Vec<Entry>, Vec<Entry>, String, bool, String);
        let (state, handed, spent, cursor, none_left, last): Answer =
            self.link.call(&read).await.map_err(|error| trouble_with(&self.names.queue, error))?;
        if state != "ok" {
            return Ok(Page::Lost);
        }
        if !self.token.is_empty() {
            self.pending_from = match none_left {
                true => None,
                false if cursor.is_empty() => self.pending_from.take(),
                false => Some(format!("({cursor}")),
            };
        }
        Ok(match handed.is_empty() && spent.is_empty() && none_left {
            true => Page::Nothing { after: last },
            false => Page::Entries { handed, spent },
        })
    }

    /// Lets everything that was not accepted come again.
    pub fn start_over(&mut self) {
        self.pending_from = Some(FROM_THE_START.to_owned());
    }

    /// Moves an entry to other streams; `false` if the queue is not ours any more.
    pub async fn bury(&mut self, id: &str, queues: &[&str], headers: &[(&str, &str)]) -> Result<bool, BrokerError> {
        let mut bury = scripts::BURY.key(&self.names.stream);
        bury.key(&self.names.lease);
        for queue in queues {
            bury.key(crate::names::stream(queue));
        }
        bury.arg(&self.names.queue).arg(&self.token).arg(id).arg(headers);
        let said: String = self.link.call(&bury).await.map_err(|error| trouble_with(&self.names.queue, error))?;
        match said.as_str() {
            "ok" => Ok(true),
            "lost" => Ok(false),
            stream => Err(BrokerError::Missing(format!("the dead-letter stream {stream}"))),
        }
    }
}

/// Until the queue is somebody else's, the connection fails, or the session ends.
async fn extend(mut link: Link, key: String, token: String, lease: Duration) {
    let mut ours = true;
    while ours {
        tokio::time::sleep(lease / 3).await;
        let mut extend = scripts::EXTEND.key(&key);
        extend.arg(&token).arg(millis(lease));
        ours = link.call::<bool>(&extend).await.unwrap_or(false);
    }
}

/// Gives up a queue that was read alone.
pub(crate) async fn release(link: &mut Link, names: &QueueNames, owner: &Owner) -> Result<(), BrokerError> {
    let mut release = scripts::RELEASE.key(&names.lease);
    release.arg(&owner.id).arg(owner.generation);
    link.call::<()>(&release).await.map_err(crate::link::trouble)
}

/// Leaves the readers of a queue; `false` if it is read by one alone now.
pub(crate) async fn leave(
    link: &mut Link,
    config: &BrokerConfig,
    names: &QueueNames,
    owner: &Owner,
) -> Result<bool, BrokerError> {
    let stale = stale_after(config);
    let mut leave = scripts::LEAVE.key(&names.stream);
    leave.key(&names.lease).arg(&names.queue).arg(&owner.id).arg(millis(stale)).arg(millis(stale * 3));
    link.call(&leave).await.map_err(|error| trouble_with(&names.queue, error))
}

/// When a shared reader has held an entry for so long, others take it for dead.
pub(crate) fn stale_after(config: &BrokerConfig) -> Duration {
    config.heartbeat * 3
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
