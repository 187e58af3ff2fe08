//! Reading the rows of `onceward.take_turns`, and writing messages that are put aside.

use crate::{
    append::stored_headers,
    cursor::{LaneCursor, Snapshot, Source},
};
use jiff::Timestamp;
use onceward_db::Row;
use onceward_envelope::{
    Actor, CorrelationId, ENVELOPE_SCHEMA_VERSION, Envelope, EventType, IdempotencyKey, Payload, TenantId, TraceContext,
};
use onceward_transport::{Delivery, TransportError};
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// Where a lane stands.
#[derive(Clone, Debug)]
pub(crate) struct LaneHead {
    pub lane_id: i32,
    pub turn: i64,
    pub cursor: LaneCursor,
    pub careful_until: i64,
    pub starts: i32,
    pub snapshot: Snapshot,
}

/// Where a message was found.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub lane_id: i32,
    pub seq: i64,
    /// A transaction brought it after the lane had been read past it.
    pub late: bool,
    /// Its row among the messages put aside.
    pub deferred: Option<Deferred>,
    /// It stands behind another of its key.
    pub blocked: bool,
}

impl Place {
    pub(crate) fn source(&self) -> Source {
        match (&self.deferred, self.late) {
            (Some(_), _) => Source::Aside,
            (None, true) => Source::Late { seq: self.seq },
            (None, false) => Source::New { seq: self.seq },
        }
    }

    /// Where it was found, for a row that must be able to go back there.
    pub(crate) fn write_to(&self, row: &mut Value) {
        row["lane_id"] = self.lane_id.into();
        row["seq"] = self.seq.into();
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Deferred {
    pub id: i64,
    pub attempts: i32,
    pub lease: i64,
    /// Its last worker let the lease run out.
    pub rescued: bool,
}

/// A row that holds a message. One that cannot be read is kept as it is.
#[derive(Debug)]
pub(crate) struct Found {
    pub place: Place,
    pub message: Result<Delivery, Unreadable>,
}

#[derive(Debug)]
pub(crate) struct Unreadable {
    pub error: String,
    pub raw: Value,
}

/// Kinds of rows of `onceward.take_turns`.
const HEAD: i32 = 0;
const LATE: i32 = 2;
const OWN_XID: i32 = 4;

/// The columns of `onceward.take_turns` in their order. By its name, a column is looked for anew in every row.
pub(crate) mod column {
    macro_rules! columns {
        ($($name:ident)+) => {
            #[derive(Clone, Copy)]
            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            enum Position { $($name),+ }
            $(pub(crate) const $name: usize = Position::$name as usize;)+
            /// Their names.
            #[cfg(test)]
            pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),+];
        };
    }
    columns! {
        KIND LANE_ID TURN LAST_SEQ OPEN_XIDS OPEN_FLOORS CAREFUL_UNTIL STARTS SNAPSHOT SEQ XID DEFERRED_ID STATE ATTEMPTS LEASE
        FIRST_ERROR FIRST_FAILED_AT BLOCKED CREATED_AT OCCURRED_AT ID VERSION TENANT_ID EVENT_TYPE TOPIC ORDERING_KEY
        IDEMPOTENCY_KEY CORRELATION_ID CAUSATION_ID HEADERS PAYLOAD
    }
}

/// Everything a turn found.
pub(crate) struct Read {
    pub heads: Vec<LaneHead>,
    pub found: Vec<Found>,
}

pub(crate) fn read(rows: &[Row]) -> Result<Read, TransportError> {
    let kind = |row: &&Row| row.get::<_, i32>(column::KIND);
    let taken_after =
        rows.iter().find(|row| kind(row) == OWN_XID).and_then(|row| row.get::<_, &str>(column::XID).parse().ok());
    let heads: Option<Vec<LaneHead>> =
        rows.iter().filter(|row| kind(row) == HEAD).map(|row| head(row, taken_after)).collect();
    Ok(Read {
        heads: heads.ok_or_else(|| {
            TransportError::Malformed("a lane's place cannot be read; is the server newer than this program?".into())
        })?,
        found: rows.iter().filter(|row| ![HEAD, OWN_XID].contains(&kind(row))).map(message).collect(),
    })
}

fn message(row: &Row) -> Found {
    let kind: i32 = row.get(column::KIND);
    let attempts: i32 = row.get(column::ATTEMPTS);
    let state: Option<&str> = row.get(column::STATE);
    let place = Place {
        lane_id: row.get(column::LANE_ID),
        seq: row.get(column::SEQ),
        late: kind == LATE,
        deferred: row.get::<_, Option<i64>>(column::DEFERRED_ID).map(|id| Deferred {
            id,
            attempts,
            lease: row.get(column::LEASE),
            rescued: state == Some("leased"),
        }),
        blocked: row.get(column::BLOCKED),
    };
    let rescued = i32::from(place.deferred.as_ref().is_some_and(|deferred| deferred.rescued));
    let attempt = u32::try_from(attempts + rescued + 1).unwrap_or(1);
    let message = delivery(row, attempt).map_err(|error| Unreadable { error, raw: raw(row) });
    Found { place, message }
}

fn head(row: &Row, taken_after: Option<u64>) -> Option<LaneHead> {
    Some(LaneHead {
        lane_id: row.get(column::LANE_ID),
        turn: row.get(column::TURN),
        cursor: LaneCursor::from_columns(
            row.get(column::LAST_SEQ),
            row.get(column::OPEN_XIDS),
            &row.get::<_, Vec<i64>>(column::OPEN_FLOORS),
        )?,
        careful_until: row.get(column::CAREFUL_UNTIL),
        starts: row.get(column::STARTS),
        snapshot: Snapshot::parse(row.get(column::SNAPSHOT), taken_after)?,
    })
}

fn delivery(row: &Row, attempt: u32) -> Result<Delivery, String> {
    let published_at: Timestamp = row.get(column::CREATED_AT);
    let event_id: Uuid = row.get(column::ID);
    let tenant = TenantId::new(row.get::<_, &str>(column::TENANT_ID)).map_err(|error| error.to_string())?;
    let version: i16 = row.get(column::VERSION);
    let event_type = EventType::new(row.get::<_, &str>(column::EVENT_TYPE), version.unsigned_abs())
        .map_err(|error| error.to_string())?;
    // A message put aside keeps "no headers" as JSON's null.
    let mut headers: Map<String, Value> = match row.get::<_, Option<&str>>(column::HEADERS) {
        Some(text) => {
            serde_json::from_str::<Option<_>>(text).map_err(|error| format!("headers: {error}"))?.unwrap_or_default()
        }
        None => Map::new(),
    };
    let actor: Option<Actor> = headers.remove("actor").and_then(|actor| serde_json::from_value(actor).ok());
    let trace = headers.get("traceparent").and_then(Value::as_str).and_then(TraceContext::parse);
    let extensions = match headers.remove("extensions") {
        Some(Value::Object(extensions)) => extensions,
        _ => Map::new(),
    };
    let idempotency_key = match row.get::<_, Option<&str>>(column::IDEMPOTENCY_KEY) {
        Some(key) => IdempotencyKey::new(key).map_err(|error| error.to_string())?,
        None => IdempotencyKey::from(event_id),
    };
    let envelope = Envelope {
        event_id,
        event_type,
        schema_version: ENVELOPE_SCHEMA_VERSION,
        tenant_id: tenant.clone(),
        correlation_id: CorrelationId::new(row.get::<_, &str>(column::CORRELATION_ID))
            .map_err(|error| error.to_string())?,
        causation_id: row.get(column::CAUSATION_ID),
        idempotency_key,
        actor,
        occurred_at: row.get::<_, Option<Timestamp>>(column::OCCURRED_AT).unwrap_or(published_at),
        extensions,
        payload: Payload::from_text(row.get(column::PAYLOAD)).map_err(|error| format!("payload: {error}"))?,
        trace,
    };
    Ok(Delivery {
        envelope,
        topic: row.get(column::TOPIC),
        ordering_key: row.get(column::ORDERING_KEY),
        priority: 0,
        queue_tenant: tenant,
        attempt,
        published_at,
        first_error: row.get(column::FIRST_ERROR),
        first_failed_at: row.get(column::FIRST_FAILED_AT),
    })
}

/// The message as `onceward.deferred` and `onceward.dead_letters` keep it.
pub(crate) fn stored(delivery: &Delivery) -> Value {
    let envelope = &delivery.envelope;
    json!({
        "id": envelope.event_id,
        "event_type": envelope.event_type.name(),
        "version": envelope.event_type.version(),
        "topic": delivery.topic,
        "idempotency_key": envelope.idempotency_key,
        "correlation_id": envelope.correlation_id,
        "causation_id": envelope.causation_id,
        "headers": stored_headers(envelope),
        "payload": envelope.payload,
        "occurred_at": envelope.occurred_at,
    })
}

/// The columns of a message that could not be read.
fn raw(row: &Row) -> Value {
    json!({
        "id": row.get::<_, Uuid>(column::ID),
        "tenant_id": row.get::<_, &str>(column::TENANT_ID),
        "event_type": row.get::<_, &str>(column::EVENT_TYPE),
        "version": row.get::<_, i16>(column::VERSION),
        "topic": row.get::<_, &str>(column::TOPIC),
        "ordering_key": row.get::<_, Option<&str>>(column::ORDERING_KEY),
        "idempotency_key": row.get::<_, Option<&str>>(column::IDEMPOTENCY_KEY),
        "correlation_id": row.get::<_, &str>(column::CORRELATION_ID),
        "causation_id": row.get::<_, Option<&str>>(column::CAUSATION_ID),
        "headers": row.get::<_, Option<&str>>(column::HEADERS),
        "payload": row.get::<_, &str>(column::PAYLOAD),
    })
}

#[cfg(test)]
mod tests {
    use super::column;

    #[test]
    fn the_columns_stand_where_the_function_gives_them() {
        let sql = include_str!("../migrations/0002_functions.sql");
        let (_, after) = sql.split_once("FUNCTION onceward.take_turns(").expect("the function is there");
        let (_, after) = after.split_once("RETURNS TABLE (").expect("it returns a table");
        let (columns, _) = after.split_once(')').expect("its columns end");
        let names: Vec<String> =
            columns.split(',').filter_map(|one| one.split_whitespace().next()).map(str::to_uppercase).collect();
        assert_eq!(names, column::NAMES);
    }
}
