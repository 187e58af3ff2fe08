//! A reader's session on one connection. While it lasts, what was delivered is known for certain; after any uncertain
//! outcome a new session starts, with everything that was not accepted.

use crate::{
    connection::{RedisConnection, queue_error},
    names::QueueNames,
    pool::{LeaseOwner, SharedState},
    renewal::Renewal,
    scripts,
};
use onceward_broker::{BrokerConfig, BrokerError};
use std::time::Duration;

/// The consumer name of all exclusive readers, so that the next one inherits the pending entries of the last.
const EXCLUSIVE_CONSUMER: &str = "exclusive";
/// The approximate limit of bytes per read.
const READ_BYTES: usize = 4 * 1024 * 1024;
/// The oldest pending entry.
const FIRST_PENDING: &str = "-";

/// A delivered entry: its id, the number of earlier deliveries, its field names and values.
pub(crate) type DeliveredEntry = (String, u32, Vec<Vec<u8>>);

pub(crate) struct ReaderSession {
    pub connection: RedisConnection,
    names: QueueNames,
    consumer: String,
    /// Empty if reading is shared.
    token: String,
    idle: Duration,
    lease: Duration,
    /// The first pending entry to deliver again; `None` if there are no more.
    pending_from: Option<String>,
    /// Extends the lease.
    renewal: Renewal,
}

/// The result of one read.
pub(crate) enum ReadResult {
    /// Entries to deliver, and entries that reached the delivery limit.
    Entries { delivered: Vec<DeliveredEntry>, exhausted: Vec<DeliveredEntry> },
    /// There are no entries; new ones will have an id greater than `after`.
    Empty { after: String },
    /// Another reader has the queue now, or had it meanwhile.
    Lost,
}

impl ReaderSession {
    /// Acquires the lease of a queue. Fails with [`BrokerError::Taken`] if another reader has it.
    pub async fn exclusive(
        shared: &SharedState,
        names: &QueueNames,
        owner: &mut LeaseOwner,
    ) -> Result<Self, BrokerError> {
        let mut connection = RedisConnection::open(&shared.config).await?;
        owner.generation += 1;
        let lease = shared.config.heartbeat;
        let mut acquire = scripts::ACQUIRE.key(&names.stream);
        acquire.key(&names.lease).arg(&names.queue).arg(&owner.id).arg(owner.generation).arg(millis(lease));
        if !connection.script::<bool>(&acquire).await.map_err(|error| queue_error(&names.queue, error))? {
            return Err(BrokerError::Taken(names.queue.clone()));
        }
        let renewal = Renewal::start(renew_lease(connection.clone(), names.lease.clone(), owner.token(), lease));
        Ok(Self {
            connection,
            names: names.clone(),
            consumer: EXCLUSIVE_CONSUMER.to_owned(),
            token: owner.token(),
            idle: Duration::ZERO,
            lease,
            pending_from: Some(FIRST_PENDING.to_owned()),
            renewal,
        })
    }

    /// Joins the shared readers of a queue. All of them may claim what this reader held on an earlier connection.
    pub async fn shared(shared: &SharedState, names: &QueueNames, owner: &LeaseOwner) -> Result<Self, BrokerError> {
        let mut connection = RedisConnection::open(&shared.config).await?;
        if !leave_group(&mut connection, &shared.config, names, owner).await? {
            return Err(BrokerError::Taken(names.queue.clone()));
        }
        Ok(Self {
            connection,
            names: names.clone(),
            consumer: owner.id.clone(),
            token: String::new(),
            idle: stale_after(&shared.config),
            lease: shared.config.heartbeat,
            pending_from: Some(FIRST_PENDING.to_owned()),
            renewal: Renewal::none(),
        })
    }

    /// Reads up to `room` entries. The session must not be used again after an error or a cancelled call.
    pub async fn read(&mut self, room: usize, delivery_limit: u16) -> Result<ReadResult, BrokerError> {
        // If the lease is no longer extended, another reader may receive the messages at any moment.
        if self.renewal.has_ended().await {
            return Ok(ReadResult::Lost);
        }
        let mut read = scripts::READ.key(&self.names.stream);
        read.key(&self.names.lease).arg(&self.names.queue).arg(&self.consumer).arg(&self.token);
        read.arg(millis(self.lease)).arg(room).arg(READ_BYTES).arg(delivery_limit);
        read.arg(self.pending_from.as_deref().unwrap_or_default()).arg(millis(self.idle));
        type Reply = (String, Vec<DeliveredEntry>, Vec<DeliveredEntry>, String, bool, String);
        let (state, delivered, exhausted, cursor, none_left, last): Reply =
            self.connection.script(&read).await.map_err(|error| queue_error(&self.names.queue, error))?;
        if state != "ok" {
            return Ok(ReadResult::Lost);
        }
        if !self.token.is_empty() {
            self.pending_from = match none_left {
                true => None,
                false if cursor.is_empty() => self.pending_from.take(),
                false => Some(format!("({cursor}")),
            };
        }
        Ok(match delivered.is_empty() && exhausted.is_empty() && none_left {
            true => ReadResult::Empty { after: last },
            false => ReadResult::Entries { delivered, exhausted },
        })
    }

    /// Delivers everything that was not accepted again.
    pub fn redeliver_pending(&mut self) {
        self.pending_from = Some(FIRST_PENDING.to_owned());
    }

    /// Moves an entry to other streams. Returns `false` if another reader has the queue now.
    pub async fn dead_letter(
        &mut self,
        id: &str,
        queues: &[&str],
        headers: &[(&str, &str)],
    ) -> Result<bool, BrokerError> {
        let mut script = scripts::DEAD_LETTER.key(&self.names.stream);
        script.key(&self.names.lease);
        for queue in queues {
            script.key(crate::names::stream(queue));
        }
        script.arg(&self.names.queue).arg(&self.token).arg(id).arg(headers);
        let reply: String =
            self.connection.script(&script).await.map_err(|error| queue_error(&self.names.queue, error))?;
        match reply.as_str() {
            "ok" => Ok(true),
            "lost" => Ok(false),
            stream => Err(BrokerError::Missing(format!("the dead-letter stream {stream}"))),
        }
    }
}

/// Extends the lease until another reader has the queue, the connection fails, or the session ends.
async fn renew_lease(mut connection: RedisConnection, key: String, token: String, lease: Duration) {
    let mut renewed = true;
    while renewed {
        tokio::time::sleep(lease / 3).await;
        let mut extend = scripts::EXTEND.key(&key);
        extend.arg(&token).arg(millis(lease));
        renewed = connection.script::<bool>(&extend).await.unwrap_or(false);
    }
}

/// Releases the lease of an exclusive reader.
pub(crate) async fn release_lease(
    connection: &mut RedisConnection,
    names: &QueueNames,
    owner: &LeaseOwner,
) -> Result<(), BrokerError> {
    let mut release = scripts::RELEASE.key(&names.lease);
    release.arg(&owner.id).arg(owner.generation);
    connection.script::<()>(&release).await.map_err(crate::connection::broker_error)
}

/// Leaves the shared readers of a queue. Returns `false` if an exclusive reader has it now.
pub(crate) async fn leave_group(
    connection: &mut RedisConnection,
    config: &BrokerConfig,
    names: &QueueNames,
    owner: &LeaseOwner,
) -> Result<bool, BrokerError> {
    let stale = stale_after(config);
    let mut leave = scripts::LEAVE.key(&names.stream);
    leave.key(&names.lease).arg(&names.queue).arg(&owner.id).arg(millis(stale)).arg(millis(stale * 3));
    connection.script(&leave).await.map_err(|error| queue_error(&names.queue, error))
}

/// Returns how long a shared reader may hold an entry before others claim it.
pub(crate) fn stale_after(config: &BrokerConfig) -> Duration {
    config.heartbeat * 3
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
