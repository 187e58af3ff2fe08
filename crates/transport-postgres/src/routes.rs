//! From topic to lanes, by the topology as it is declared in the database.

use crate::{
    hash::{KeyHash, Places},
    lanes::Lane,
    store,
    wake::{LanePlace, Wakes},
};
use onceward_db::Db;
use onceward_envelope::TenantId;
use onceward_topology::{ExchangeKind, Queue, Topic, pattern};
use onceward_transport::{BusKind, TransportError};
use std::{
    collections::HashMap,
    sync::{Arc, RwLock},
};

/// A queue as declared.
#[derive(Clone, Debug)]
pub struct DeclaredQueue {
    /// Its number.
    pub id: i32,
    /// What the topology says of it.
    pub definition: Queue,
    pub(crate) shards: i16,
    pub(crate) max_priority: i16,
}

/// The declared topology at one version.
#[derive(Debug)]
pub struct RouteTable {
    /// Changes with every change of the topology.
    pub version: i64,
    exchanges: HashMap<String, ExchangeKind>,
    bindings: HashMap<String, Vec<(String, i32)>>,
    queues: HashMap<i32, DeclaredQueue>,
    /// The bus that carries messages, as the database knows it.
    pub bus: String,
}

/// The queue in which messages wait for the relay.
pub const OUTBOX: &str = "@outbox";

type LaneKey = (i32, TenantId, i16, i16);

/// The routes, read at first use and again when they have changed.
pub struct Routes {
    db: Db,
    table: RwLock<Option<Arc<RouteTable>>>,
    lanes: RwLock<HashMap<LaneKey, i32>>,
    places: Places,
}

impl Routes {
    pub(crate) fn new(db: Db) -> Self {
        Self { db, table: RwLock::default(), lanes: RwLock::default(), places: Places::new() }
    }

    /// The place of a message that is published now.
    pub(crate) fn place(&self, table: &RouteTable, tenant: &TenantId, key: Option<&str>) -> KeyHash {
        self.places.next(tenant.as_str(), key, table.relayed())
    }

    /// Forgets the table: a publish found that the topology has changed.
    pub fn forget(&self) {
        *self.table.write().expect("no panic while held") = None;
    }

    /// The current table.
    pub async fn table(&self) -> Result<Arc<RouteTable>, TransportError> {
        if let Some(table) = self.table.read().expect("no panic while held").clone() {
            return Ok(table);
        }
        let table = Arc::new(load(&self.db).await?);
        *self.table.write().expect("no panic while held") = Some(table.clone());
        Ok(table)
    }

    /// The queue of this name; looks again if it is not known yet.
    pub async fn queue(&self, name: &str) -> Result<DeclaredQueue, TransportError> {
        let find = |table: &RouteTable| table.queues.values().find(|queue| queue.definition.name == name).cloned();
        if let Some(queue) = find(&*self.table().await?) {
            return Ok(queue);
        }
        self.forget();
        find(&*self.table().await?).ok_or_else(|| TransportError::UnknownQueue(name.to_owned()))
    }

    /// The lanes a message goes to; none if nobody is bound to its topic.
    pub async fn lanes(
        &self,
        wakes: &Wakes,
        table: &RouteTable,
        topic: &Topic,
        tenant: &TenantId,
        key: KeyHash,
        priority: u8,
    ) -> Result<Vec<i32>, TransportError> {
        let mut lanes = Vec::new();
        for queue in table.route(topic)? {
            lanes.push(self.lane(wakes, queue, tenant, key, priority).await?);
        }
        Ok(lanes)
    }

    /// The lane of `queue` for a message of `tenant`.
    pub async fn lane(
        &self,
        wakes: &Wakes,
        queue: &DeclaredQueue,
        tenant: &TenantId,
        key: KeyHash,
        priority: u8,
    ) -> Result<i32, TransportError> {
        let priority = i16::from(priority).min(queue.max_priority);
        let place = (queue.id, tenant.clone(), priority, key.shard(queue.shards));
        let known = self.lanes.read().expect("no panic while held").get(&place).copied();
        match known {
            Some(lane) => Ok(lane),
            None => self.make_lane(wakes, place).await,
        }
    }

    /// On a connection of its own, so that the lane exists even if the publisher rolls back.
    async fn make_lane(&self, wakes: &Wakes, place: LaneKey) -> Result<i32, TransportError> {
        let (queue_id, tenant, priority, shard) = &place;
        let connection = self.db.connection().await?;
        let rows = connection.query(store::LANE_OF, &[queue_id, &tenant.as_str(), priority, shard]).await?;
        let id: i32 = rows[0].get(0);
        wakes.remember(LanePlace {
            queue_id: *queue_id,
            lane: Lane { id, tenant: tenant.clone(), priority: *priority },
        });
        self.lanes.write().expect("no panic while held").insert(place, id);
        Ok(id)
    }
}

impl RouteTable {
    /// A relay carries messages; they are not routed here.
    pub fn relayed(&self) -> bool {
        self.bus != BusKind::Postgres.name()
    }

    fn route(&self, topic: &Topic) -> Result<Vec<&DeclaredQueue>, TransportError> {
        let kind = *self
            .exchanges
            .get(&topic.exchange)
            .ok_or_else(|| TransportError::UnknownExchange(topic.exchange.clone()))?;
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

async fn load(db: &Db) -> Result<RouteTable, TransportError> {
    let connection = db.connection().await?;
    // The version is read first: if the rest is newer than it, the next publish notices and reads again.
    let state = connection.query(store::TOPOLOGY_VERSION, &[]).await?;
    let (version, bus) = (state[0].get(0), state[0].get(1));
    let mut exchanges = HashMap::new();
    for row in connection.query(store::EXCHANGES, &[]).await? {
        let kind = serde_json::from_value(serde_json::Value::String(row.get(1)))
            .map_err(|error| TransportError::Malformed(format!("exchange kind: {error}")))?;
        exchanges.insert(row.get(0), kind);
    }
    let mut bindings: HashMap<String, Vec<(String, i32)>> = HashMap::new();
    for row in connection.query(store::BINDINGS, &[]).await? {
        bindings.entry(row.get(0)).or_default().push((row.get(2), row.get(1)));
    }
    let mut queues = HashMap::new();
    for row in connection.query(store::QUEUES, &[]).await? {
        let definition = serde_json::from_value(row.get(4))
            .map_err(|error| TransportError::Malformed(format!("queue definition: {error}")))?;
        let queue = DeclaredQueue { id: row.get(0), definition, shards: row.get(2), max_priority: row.get(3) };
        queues.insert(queue.id, queue);
    }
    Ok(RouteTable { version, exchanges, bindings, queues, bus })
}
