//! Reading the rows of `onceward.take_turns`, or of a relay's statement for the same: where lanes stand, and the messages that
//! were found in them.

use crate::{
    cursor::{LaneCursor, Snapshot, Source},
    lanes::Lane,
    stored::Stored,
};
use jiff::Timestamp;
use onceward_db::Row;
use onceward_transport::{Delivery, TransportError};
use postgres_types::Json;
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;

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

/// What is known of a message beside its own row.
pub(crate) struct Origin {
    pub lane: Lane,
    pub attempt: u32,
    /// Few have any, and there are many messages in a turn.
    unusual: Option<Box<Unusual>>,
}

struct Unusual {
    foreign_tenant: Option<String>,
    first_error: Option<String>,
    first_failed_at: Option<Timestamp>,
}

impl Origin {
    pub(crate) fn tenant_id(&self) -> &str {
        self.foreign_tenant().unwrap_or(self.lane.tenant.as_str())
    }

    /// Whose it is, if not the lane's tenant's.
    pub(crate) fn foreign_tenant(&self) -> Option<&str> {
        self.unusual.as_ref()?.foreign_tenant.as_deref()
    }

    pub(crate) fn first_error(&self) -> Option<&str> {
        self.unusual.as_ref()?.first_error.as_deref()
    }

    pub(crate) fn first_failed_at(&self) -> Option<Timestamp> {
        self.unusual.as_ref()?.first_failed_at
    }
}

/// What a turn makes of a message's row.
pub(crate) trait Message: Send + Sync + Sized {
    /// Who must be asked to make it.
    type Guide: ?Sized;
    /// Whether a turn of such messages appends none, so that nobody has to wait for its end.
    const QUIET: bool;

    fn read(row: Row, origin: Origin, guide: &mut Self::Guide) -> Result<Self, Unreadable>;

    /// It was handled so much more often, as far as starts of its turn tell.
    fn add_attempts(&mut self, more: u32);

    /// The whole message, for who has to write it down.
    fn to_delivery(&self) -> Result<Cow<'_, Delivery>, Unreadable>;
}

impl Message for Delivery {
    type Guide = ();
    const QUIET: bool = false;

    fn read(row: Row, origin: Origin, (): &mut ()) -> Result<Self, Unreadable> {
        let delivery = Stored::read(&row, &origin).and_then(|stored| stored.delivery(&origin));
        delivery.map_err(|error| Unreadable::new(error, &row, &origin))
    }

    fn add_attempts(&mut self, more: u32) {
        self.attempt += more;
    }

    fn to_delivery(&self) -> Result<Cow<'_, Delivery>, Unreadable> {
        Ok(Cow::Borrowed(self))
    }
}

/// A row that holds a message. One that cannot be read is kept as it is.
#[derive(Debug)]
pub(crate) struct Found<M> {
    pub place: Place,
    pub message: Result<M, Unreadable>,
}

#[derive(Debug)]
pub(crate) struct Unreadable {
    pub error: String,
    pub raw: Value,
}

impl Unreadable {
    pub(crate) fn new(error: String, row: &Row, origin: &Origin) -> Self {
        Self { error, raw: Stored::raw(row, origin) }
    }
}

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
        LANE_ID ABOUT SEQ CREATED_AT OCCURRED_AT ID VERSION EVENT_TYPE TOPIC ORDERING_KEY IDEMPOTENCY_KEY CORRELATION_UUID
        CORRELATION_ID CAUSATION_ID HEADERS PAYLOAD
    }
}

/// What is said about a lane.
#[derive(Deserialize)]
struct AboutLane {
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

/// What is said about a message unless it is new, of the lane's tenant, and nobody is before it.
#[derive(Default, Deserialize)]
struct AboutMessage {
    tenant_id: Option<String>,
    #[serde(default)]
    late: bool,
    #[serde(default)]
    blocked: bool,
    aside: Option<AboutAside>,
}

#[derive(Deserialize)]
struct AboutAside {
    id: i64,
    state: String,
    attempts: i32,
    lease: i64,
    first_error: Option<String>,
    first_failed_at: Option<Timestamp>,
}

/// A lane, and everything that a turn found in it, in the order in which it is handled.
pub(crate) struct Read<M> {
    pub head: LaneHead,
    pub found: Vec<Found<M>>,
}

/// Reads the rows as they come.
pub(crate) struct Reader<'a, M: Message> {
    lanes: &'a [Lane],
    guide: &'a mut M::Guide,
    read: Vec<(i32, AboutLane, Vec<Found<M>>)>,
    /// Where in `read` the last message went.
    last: usize,
    stranger: bool,
}

impl<'a, M: Message> Reader<'a, M> {
    pub(crate) fn new(lanes: &'a [Lane], guide: &'a mut M::Guide) -> Self {
        Self { lanes, guide, read: Vec::with_capacity(lanes.len()), last: 0, stranger: false }
    }

    pub(crate) fn add(&mut self, row: Row) {
        self.stranger |= self.try_add(row).is_none();
    }

    fn try_add(&mut self, row: Row) -> Option<()> {
        let lane_id: i32 = row.get(column::LANE_ID);
        let Some(seq) = row.get(column::SEQ) else {
            self.read.push((lane_id, about(&row)?, Vec::new()));
            return Some(());
        };
        // Messages of one lane come in a row.
        if self.read.get(self.last)?.0 != lane_id {
            self.last = self.read.iter().position(|(lane, ..)| *lane == lane_id)?;
        }
        let lane = self.lanes.iter().find(|lane| lane.id == lane_id)?;
        let found = found(row, lane, seq, self.guide)?;
        self.read[self.last].2.push(found);
        Some(())
    }

    pub(crate) fn finish(self) -> Result<Vec<Read<M>>, TransportError> {
        let lane = |(lane_id, about, found)| Some(Read { head: head(lane_id, &about)?, found });
        let all: Option<_> = self.read.into_iter().map(lane).collect();
        all.filter(|_| !self.stranger).ok_or_else(|| {
            TransportError::Malformed("a lane's place cannot be read; is the server newer than this program?".into())
        })
    }
}

fn found<M: Message>(row: Row, lane: &Lane, seq: i64, guide: &mut M::Guide) -> Option<Found<M>> {
    let Json(about) = row.try_get::<_, Option<_>>(column::ABOUT).ok()?.unwrap_or_default();
    let AboutMessage { tenant_id, late, blocked, aside } = about;
    let mut origin = Origin { lane: lane.clone(), attempt: 1, unusual: None };
    let mut place = Place { lane_id: lane.id, seq, late, deferred: None, blocked };
    let foreign_tenant = tenant_id.filter(|tenant_id| tenant_id != lane.tenant.as_str());
    if let Some(AboutAside { id, state, attempts, lease, first_error, first_failed_at }) = aside {
        let rescued = state == "leased";
        place.deferred = Some(Deferred { id, attempts, lease, rescued });
        origin.attempt = u32::try_from(attempts + i32::from(rescued) + 1).unwrap_or(1);
        origin.unusual = Some(Unusual { foreign_tenant, first_error, first_failed_at }.into());
    } else if foreign_tenant.is_some() {
        origin.unusual = Some(Unusual { foreign_tenant, first_error: None, first_failed_at: None }.into());
    }
    Some(Found { place, message: M::read(row, origin, guide) })
}

fn head(lane_id: i32, about: &AboutLane) -> Option<LaneHead> {
    Some(LaneHead {
        lane_id,
        turn: about.turn,
        cursor: LaneCursor::from_columns(about.last_seq, &about.open_xids, &about.open_floors)?,
        careful_until: about.careful_until,
        starts: about.starts,
        snapshot: Snapshot::parse(&about.snapshot, Some(about.xid.parse().ok()?))?
            .without(about.quiet.as_deref().unwrap_or_default()),
    })
}

fn about<T: for<'a> Deserialize<'a>>(row: &Row) -> Option<T> {
    row.try_get(column::ABOUT).ok().map(|Json(about)| about)
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
