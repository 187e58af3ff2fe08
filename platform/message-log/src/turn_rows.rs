//! Reads the rows of `onceward.take_turns`, or of the relay's equivalent statement: the positions of lanes, and the
//! messages found in them.

use crate::{
    BusError,
    cursor::{LaneCursor, TransactionSnapshot},
    lane_scheduler::Lane,
    turn_message::{DeferredState, MessageLocation, RareFields, RowContext, TurnMessage, UnreadableMessage},
};
use jiff::Timestamp;
use onceward_db::Row;
use postgres_types::Json;
use serde::Deserialize;

/// A lane's position and state at the start of a turn.
#[derive(Clone, Debug)]
pub(crate) struct LaneHead {
    pub lane_id: i32,
    pub turn: i64,
    pub cursor: LaneCursor,
    pub careful_until: i64,
    pub starts: i32,
    pub snapshot: TransactionSnapshot,
}

/// A row that contains a message. An unreadable one is kept unchanged.
#[derive(Debug)]
pub(crate) struct ReadMessage<M> {
    pub location: MessageLocation,
    pub message: Result<M, UnreadableMessage>,
}

/// The columns of `onceward.take_turns` in order. Access by name would search for the column again in every row.
pub(crate) mod column {
    macro_rules! columns {
        ($($name:ident)+) => {
            #[derive(Clone, Copy)]
            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            enum Index { $($name),+ }
            $(pub(crate) const $name: usize = Index::$name as usize;)+
            /// Their names.
            pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),+];
        };
    }
    columns! {
        LANE_ID ABOUT SEQ CREATED_AT OCCURRED_AT ID VERSION EVENT_TYPE TOPIC ORDERING_KEY IDEMPOTENCY_KEY CORRELATION_UUID
        CORRELATION_ID CAUSATION_ID HEADERS PAYLOAD
    }
}

/// The `about` column of a lane's row.
#[derive(Deserialize)]
struct LaneMetadata {
    turn: i64,
    last_seq: i64,
    open_xids: String,
    open_floors: Vec<i64>,
    careful_until: i64,
    starts: i32,
    snapshot: String,
    xid: String,
    #[serde(default)]
    quiet: Option<Vec<u64>>,
}

/// The `about` column of a message's row, unless the message is new, of the lane's tenant, not blocked and not cancelled.
#[derive(Default, Deserialize)]
struct MessageMetadata {
    tenant_id: Option<String>,
    #[serde(default)]
    late: bool,
    #[serde(default)]
    blocked: bool,
    #[serde(default)]
    cancelled: bool,
    #[serde(rename = "aside")]
    deferred: Option<DeferredMetadata>,
}

#[derive(Deserialize)]
struct DeferredMetadata {
    id: i64,
    state: String,
    attempts: i32,
    lease: i64,
    #[serde(rename = "lost")]
    expired_leases: i32,
    starts_alone: i32,
    first_error: Option<String>,
    first_failed_at: Option<Timestamp>,
    unknown_since: Option<Timestamp>,
}

/// A lane and all messages that a turn found in it, in handling order.
pub(crate) struct LaneRows<M> {
    pub head: LaneHead,
    pub messages: Vec<ReadMessage<M>>,
}

/// Reads the rows as they arrive.
pub(crate) struct RowReader<'a, M: TurnMessage> {
    lanes: &'a [Lane],
    context: &'a mut M::Context,
    read: Vec<(i32, LaneMetadata, Vec<ReadMessage<M>>)>,
    /// The index in `read` of the last message's lane.
    last: usize,
    /// Whether a row could not be read, or belongs to a lane that was not requested.
    has_invalid_row: bool,
}

impl<'a, M: TurnMessage> RowReader<'a, M> {
    pub(crate) fn new(lanes: &'a [Lane], context: &'a mut M::Context) -> Self {
        Self { lanes, context, read: Vec::with_capacity(lanes.len()), last: 0, has_invalid_row: false }
    }

    pub(crate) fn add(&mut self, row: Row) {
        self.has_invalid_row |= self.try_add(row).is_none();
    }

    fn try_add(&mut self, row: Row) -> Option<()> {
        let lane_id: i32 = row.get(column::LANE_ID);
        let Some(seq) = row.get(column::SEQ) else {
            self.read.push((lane_id, metadata(&row)?, Vec::new()));
            return Some(());
        };
        // The rows of one lane are consecutive.
        if self.read.get(self.last)?.0 != lane_id {
            self.last = self.read.iter().position(|(lane, ..)| *lane == lane_id)?;
        }
        let lane = self.lanes.iter().find(|lane| lane.id == lane_id)?;
        let message = read_message(row, lane, seq, self.context)?;
        self.read[self.last].2.push(message);
        Some(())
    }

    pub(crate) fn finish(self) -> Result<Vec<LaneRows<M>>, BusError> {
        let lane = |(lane_id, metadata, messages)| Some(LaneRows { head: lane_head(lane_id, &metadata)?, messages });
        let lanes: Option<_> = self.read.into_iter().map(lane).collect();
        lanes.filter(|_| !self.has_invalid_row).ok_or_else(|| {
            BusError::Malformed("a lane's position cannot be read; is the server newer than this program?".into())
        })
    }
}

fn read_message<M: TurnMessage>(row: Row, lane: &Lane, seq: i64, context: &mut M::Context) -> Option<ReadMessage<M>> {
    let Json(metadata) = row.try_get::<_, Option<_>>(column::ABOUT).ok()?.unwrap_or_default();
    let MessageMetadata { tenant_id, late, blocked, cancelled, deferred } = metadata;
    let mut row_context = RowContext { lane: lane.clone(), attempt: 1, rare: None };
    let mut location = MessageLocation { lane_id: lane.id, seq, late, deferred: None, blocked, cancelled };
    let foreign_tenant = tenant_id.filter(|tenant_id| tenant_id != lane.tenant.as_str());
    if let Some(deferred) = deferred {
        // Leases that expired while others were held beside it do not count as its attempts.
        row_context.attempt = u32::try_from(deferred.attempts + deferred.starts_alone + 1).unwrap_or(1);
        location.deferred = Some(deferred.state());
        let DeferredMetadata { first_error, first_failed_at, unknown_since, .. } = deferred;
        row_context.rare = Some(RareFields { foreign_tenant, first_error, first_failed_at, unknown_since }.into());
    } else if foreign_tenant.is_some() {
        row_context.rare = Some(RareFields { foreign_tenant, ..RareFields::default() }.into());
    }
    Some(ReadMessage { location, message: M::from_row(row, row_context, context) })
}

impl DeferredMetadata {
    fn state(&self) -> DeferredState {
        let lease_expired = self.state == "leased";
        DeferredState {
            id: self.id,
            attempts: self.attempts,
            lease: self.lease,
            lease_expired,
            expired_leases: self.expired_leases + i32::from(lease_expired),
        }
    }
}

fn lane_head(lane_id: i32, metadata: &LaneMetadata) -> Option<LaneHead> {
    Some(LaneHead {
        lane_id,
        turn: metadata.turn,
        cursor: LaneCursor::from_columns(metadata.last_seq, &metadata.open_xids, &metadata.open_floors)?,
        careful_until: metadata.careful_until,
        starts: metadata.starts,
        snapshot: TransactionSnapshot::parse(&metadata.snapshot, Some(metadata.xid.parse().ok()?))?
            .without(metadata.quiet.as_deref().unwrap_or_default()),
    })
}

fn metadata<T: for<'a> Deserialize<'a>>(row: &Row) -> Option<T> {
    row.try_get(column::ABOUT).ok().map(|Json(metadata)| metadata)
}

#[cfg(test)]
mod tests {
    use super::column;

    #[test]
    fn columns_have_the_order_in_which_the_function_returns_them() {
        let sql = include_str!("../migrations/0007_take_turns.sql");
        let (_, after) = sql.split_once("FUNCTION onceward.take_turns(").expect("the migration defines the function");
        let (_, after) = after.split_once("RETURNS TABLE (").expect("the function returns a table");
        let (columns, _) = after.split_once(')').expect("the list of columns ends");
        let names: Vec<String> =
            columns.split(',').filter_map(|one| one.split_whitespace().next()).map(str::to_uppercase).collect();
        assert_eq!(names, column::NAMES);
    }
}
