//! A message as a turn builds it from its row: where it was found, and the context that its row lacks.

use crate::{cursor::MessageSource, lane_scheduler::Lane, queue_reader::QueueReader, stored_message::StoredMessage};
use jiff::Timestamp;
use onceward_broker::Delivery;
use onceward_db::Row;
use serde_json::Value;
use std::borrow::Cow;

/// Where a message was found.
#[derive(Clone, Debug)]
pub(crate) struct MessageLocation {
    pub lane_id: i32,
    pub seq: i64,
    /// Its transaction committed after the lane had been read past it.
    pub late: bool,
    /// Its row among the deferred messages.
    pub deferred: Option<DeferredState>,
    /// It waits behind another message of its key.
    pub blocked: bool,
    /// It was cancelled before it was read; its dead letter exists already.
    pub cancelled: bool,
}

impl MessageLocation {
    pub(crate) fn source(&self) -> MessageSource {
        match (&self.deferred, self.late) {
            (Some(_), _) => MessageSource::Deferred,
            (None, true) => MessageSource::Late { seq: self.seq },
            (None, false) => MessageSource::New { seq: self.seq },
        }
    }

    pub(crate) fn is_suspicious(&self) -> bool {
        self.deferred.as_ref().is_some_and(DeferredState::is_suspicious)
    }

    /// Writes its location into `row`, so that the message can return there.
    pub(crate) fn write_to(&self, row: &mut Value) {
        row["lane_id"] = self.lane_id.into();
        row["seq"] = self.seq.into();
    }
}

/// The state of a deferred message.
#[derive(Clone, Debug)]
pub(crate) struct DeferredState {
    pub id: i64,
    pub attempts: i32,
    pub lease: i64,
    /// Whether its last worker let the lease expire.
    pub lease_expired: bool,
    /// How many of its leases expired, including that one.
    pub expired_leases: i32,
}

impl DeferredState {
    /// Returns whether it lost enough workers to be handled alone: it may be what killed them.
    pub(crate) fn is_suspicious(&self) -> bool {
        QueueReader::is_suspicious(self.expired_leases)
    }
}

/// Context of a message besides its own row.
pub(crate) struct RowContext {
    pub lane: Lane,
    pub attempt: u32,
    /// Boxed, because few messages have any of it and a turn has many messages.
    pub rare: Option<Box<RareFields>>,
}

/// What only deferred messages, or messages of another tenant than their lane's, have.
#[derive(Default)]
pub(crate) struct RareFields {
    pub foreign_tenant: Option<String>,
    pub first_error: Option<String>,
    pub first_failed_at: Option<Timestamp>,
    pub unknown_since: Option<Timestamp>,
}

impl RowContext {
    pub(crate) fn tenant_id(&self) -> &str {
        self.foreign_tenant().unwrap_or(self.lane.tenant.as_str())
    }

    /// Its tenant, if that is not the lane's tenant.
    pub(crate) fn foreign_tenant(&self) -> Option<&str> {
        self.rare.as_ref()?.foreign_tenant.as_deref()
    }

    pub(crate) fn first_error(&self) -> Option<&str> {
        self.rare.as_ref()?.first_error.as_deref()
    }

    pub(crate) fn first_failed_at(&self) -> Option<Timestamp> {
        self.rare.as_ref()?.first_failed_at
    }

    pub(crate) fn unknown_since(&self) -> Option<Timestamp> {
        self.rare.as_ref()?.unknown_since
    }
}

/// A message as a turn builds it from its row: a whole [`Delivery`] for handlers, or a parcel for the relay.
pub(crate) trait TurnMessage: Send + Sync + Sized {
    /// What else is needed to build the message from its row.
    type Context: ?Sized;
    /// Whether a turn of such messages appends none, so that others need not wait for its end.
    const QUIET: bool;

    fn from_row(row: Row, row_context: RowContext, context: &mut Self::Context) -> Result<Self, UnreadableMessage>;

    /// Adds `more` attempts, according to the starts of its turn.
    fn add_attempts(&mut self, more: u32);

    /// Returns the whole message, for callers that must store it.
    fn to_delivery(&self) -> Result<Cow<'_, Delivery>, UnreadableMessage>;
}

impl TurnMessage for Delivery {
    type Context = ();
    const QUIET: bool = false;

    fn from_row(row: Row, row_context: RowContext, (): &mut ()) -> Result<Self, UnreadableMessage> {
        let delivery = StoredMessage::read(&row, &row_context).and_then(|stored| stored.into_delivery(&row_context));
        delivery.map_err(|error| UnreadableMessage::new(error, &row, &row_context))
    }

    fn add_attempts(&mut self, more: u32) {
        self.attempt += more;
    }

    fn to_delivery(&self) -> Result<Cow<'_, Delivery>, UnreadableMessage> {
        Ok(Cow::Borrowed(self))
    }
}

/// A message that cannot be read, with its columns unchanged.
#[derive(Debug)]
pub(crate) struct UnreadableMessage {
    pub error: String,
    pub raw: Value,
}

impl UnreadableMessage {
    pub(crate) fn new(error: String, row: &Row, row_context: &RowContext) -> Self {
        Self { error, raw: StoredMessage::raw_columns(row, row_context) }
    }

    pub(crate) fn ordering_key(&self) -> Option<&str> {
        self.raw["ordering_key"].as_str()
    }
}
