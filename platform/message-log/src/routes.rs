//! Maps topics to lanes, according to the topology declared in the database.

use crate::{
    BusError,
    hash::{KeyHash, KeyHasher},
    lane_scheduler::Lane,
    unrouted::UnroutedWarnings,
    wake_hub::{QueueLane, WakeHub},
};
use onceward_broker::BusKind;
use onceward_db::Db;
use onceward_envelope::TenantId;
use onceward_topology::{ExchangeKind, Queue, Topic, pattern};
use parking_lot::RwLock;
use std::{collections::HashMap, sync::Arc};

// In `migrations/0004_lanes.sql`:
const UNROUTED_LANE: &str = "SELECT onceward.unrouted_lane($1, $2)";
const LANE_OF: &str = "SELECT onceward.lane_of($1, $2, $3, $4)";
// Tables of `migrations/0001_tables.sql`:
pub(crate) const TOPOLOGY_VERSION: &str = "SELECT topology_version, bus, key_days FROM onceward.log_state";
pub(crate) const EXCHANGES: &str = "SELECT name, kind FROM onceward.exchange";
pub(crate) const BINDINGS: &str = "SELECT exchange, queue_id, pattern FROM onceward.binding";
pub(crate) const QUEUES: &str = "SELECT id, name, shards, max_priority, definition FROM onceward.queue";

/// A declared queue.
#[derive(Clone, Debug)]
pub struct DeclaredQueue {
    /// Its number.
    pub id: i32,
    /// Its definition in the topology.
    pub definition: Queue,
    pub(crate) shards: i16,
    pub(crate) max_priority: i16,
}

/// The declared topology at one version.
#[derive(Debug)]
pub struct RouteTable {
    /// The version, which changes with every change of the topology.
    pub version: i64,
    exchanges: HashMap<String, ExchangeKind>,
    bindings: HashMap<String, Vec<(String, i32)>>,
    queues: HashMap<i32, DeclaredQueue>,
    /// The bus that carries messages, according to the database.
    pub bus: String,
    /// How many days the keys of an event type are remembered, where that is longer than their partition is kept.
    key_days: HashMap<String, i32>,
}

/// The queue of messages waiting for the relay.
pub const OUTBOX: &str = "@outbox";

type LaneKey = (i32, TenantId, i16, i16);

/// Maps topics to lanes. The topology is loaded on first use and again after it has changed.
pub struct LaneRouter {
    db: Db,
    table: RwLock<Option<Arc<RouteTable>>>,
    lanes: RwLock<HashMap<LaneKey, i32>>,
    key_hasher: KeyHasher,
    unrouted: UnroutedWarnings,
    /// Lanes of unrouted messages, by exchange and event type.
    unrouted_lanes: RwLock<HashMap<(String, String), i32>>,
}

impl LaneRouter {
    pub(crate) fn new(db: Db) -> Self {
        Self {
            db,
            table: RwLock::default(),
            lanes: RwLock::default(),
            key_hasher: KeyHasher::new(),
            unrouted: UnroutedWarnings::default(),
            unrouted_lanes: RwLock::default(),
        }
    }

    /// Returns the hash for a message that is published now.
    pub(crate) fn key_hash(&self, table: &RouteTable, tenant: &TenantId, key: Option<&str>) -> KeyHash {
        self.key_hasher.next(tenant.as_str(), key, table.relayed())
    }

    /// The warnings about messages that no queue is bound to.
    pub(crate) fn unrouted(&self) -> &UnroutedWarnings {
        &self.unrouted
    }

    /// Discards the table, because a publish found that the topology has changed.
    pub fn invalidate(&self) {
        *self.table.write() = None;
    }

    /// Returns the current table, loading it if necessary.
    pub async fn table(&self) -> Result<Arc<RouteTable>, BusError> {
        if let Some(table) = self.table.read().clone() {
            return Ok(table);
        }
        let table = Arc::new(load(&self.db).await?);
        *self.table.write() = Some(table.clone());
        Ok(table)
    }

    /// Returns the queue of this name, reloading the table if it is not in it yet.
    pub async fn queue(&self, name: &str) -> Result<DeclaredQueue, BusError> {
        let find = |table: &RouteTable| table.queues.values().find(|queue| queue.definition.name == name).cloned();
        if let Some(queue) = find(&*self.table().await?) {
            return Ok(queue);
        }
        self.invalidate();
        find(&*self.table().await?).ok_or_else(|| BusError::UnknownQueue(name.to_owned()))
    }

    /// Returns the lanes a message goes to; none if no queue is bound to its topic.
    pub async fn lanes(
        &self,
        wake_hub: &WakeHub,
        table: &RouteTable,
        topic: &Topic,
        tenant: &TenantId,
        key: KeyHash,
        priority: u8,
    ) -> Result<Vec<i32>, BusError> {
        let mut lanes = Vec::new();
        for queue in table.route(topic)? {
            lanes.push(self.lane(wake_hub, queue, tenant, key, priority).await?);
        }
        Ok(lanes)
    }

    /// Returns the lane, which has no reader, of messages of this type to which no queue of `exchange` is bound.
    pub(crate) async fn unrouted_lane(&self, exchange: &str, event_type: &str) -> Result<i32, BusError> {
        let key = (exchange.to_owned(), event_type.to_owned());
        let known = self.unrouted_lanes.read().get(&key).copied();
        if let Some(lane) = known {
            return Ok(lane);
        }
        let connection = self.db.connection().await?;
        let lane: i32 = connection.query(UNROUTED_LANE, &[&exchange, &event_type]).await?[0].get(0);
        self.unrouted_lanes.write().insert(key, lane);
        Ok(lane)
    }

    /// Returns the lane of `queue` for a message of `tenant`.
    pub async fn lane(
        &self,
        wake_hub: &WakeHub,
        queue: &DeclaredQueue,
        tenant: &TenantId,
        key: KeyHash,
        priority: u8,
    ) -> Result<i32, BusError> {
        let priority = i16::from(priority).min(queue.max_priority);
        let lane_key = (queue.id, tenant.clone(), priority, key.shard(queue.shards));
        let known = self.lanes.read().get(&lane_key).copied();
        match known {
            Some(lane) => Ok(lane),
            None => self.create_lane(wake_hub, lane_key).await,
        }
    }

    /// Creates the lane on a separate connection, so that it exists even if the publisher rolls back.
    async fn create_lane(&self, wake_hub: &WakeHub, lane_key: LaneKey) -> Result<i32, BusError> {
        let (queue_id, tenant, priority, shard) = &lane_key;
        let connection = self.db.connection().await?;
        let rows = connection.query(LANE_OF, &[queue_id, &tenant.as_str(), priority, shard]).await?;
        let id: i32 = rows[0].get(0);
        let lane = Lane { id, tenant: tenant.clone(), priority: *priority };
        wake_hub.add_lane(QueueLane { queue_id: *queue_id, lane });
        self.lanes.write().insert(lane_key, id);
        Ok(id)
    }
}

impl RouteTable {
    /// Returns how many days this event type's keys are remembered; `None` means as long as their partition of the log.
    pub(crate) fn key_days(&self, event_type: &str) -> Option<i32> {
        if self.key_days.is_empty() { None } else { self.key_days.get(event_type).copied() }
    }

    /// Returns whether a relay carries the messages, so that they are not routed here.
    pub fn relayed(&self) -> bool {
        self.bus != BusKind::Postgres.name()
    }

    fn route(&self, topic: &Topic) -> Result<Vec<&DeclaredQueue>, BusError> {
        let kind =
            *self.exchanges.get(&topic.exchange).ok_or_else(|| BusError::UnknownExchange(topic.exchange.clone()))?;
        if self.relayed() {
            return Ok(self.queues.values().filter(|queue| queue.definition.name == OUTBOX).collect());
        }
        let mut ids: Vec<i32> = self
            .bindings
            .get(&topic.exchange)
            .into_iter()
            .flatten()
            .filter(|(binding, _)| pattern::matches(kind, binding, &topic.routing_key))
            .map(|(_, queue)| *queue)
            .collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids.iter().filter_map(|id| self.queues.get(id)).collect())
    }
}

async fn load(db: &Db) -> Result<RouteTable, BusError> {
    let connection = db.connection().await?;
    // The version is read first: if the rest is newer, the next publish notices and reloads.
    let state = connection.query(TOPOLOGY_VERSION, &[]).await?;
    let (version, bus) = (state[0].get(0), state[0].get(1));
    let key_days = serde_json::from_value(state[0].get(2)).map_err(|error| {
        BusError::Malformed(format!("the days for which keys are remembered cannot be read: {error}"))
    })?;
    let mut exchanges = HashMap::new();
    for row in connection.query(EXCHANGES, &[]).await? {
        let kind = serde_json::from_value(serde_json::Value::String(row.get(1)))
            .map_err(|error| BusError::Malformed(format!("the kind of an exchange cannot be read: {error}")))?;
        exchanges.insert(row.get(0), kind);
    }
    let mut bindings: HashMap<String, Vec<(String, i32)>> = HashMap::new();
    for row in connection.query(BINDINGS, &[]).await? {
        bindings.entry(row.get(0)).or_default().push((row.get(2), row.get(1)));
    }
    let mut queues = HashMap::new();
    for row in connection.query(QUEUES, &[]).await? {
        let definition = serde_json::from_value(row.get(4))
            .map_err(|error| BusError::Malformed(format!("the definition of a queue cannot be read: {error}")))?;
        let queue = DeclaredQueue { id: row.get(0), definition, shards: row.get(2), max_priority: row.get(3) };
        queues.insert(queue.id, queue);
    }
    Ok(RouteTable { version, exchanges, bindings, queues, bus, key_days })
}
