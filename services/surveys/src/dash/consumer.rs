//! The consumer of `surveys.dash.v1`: counts each event once, in the transaction that settles its message.

use super::{probe::LagProbe, store};
use crate::{
    events::{
        AnswerUpserted, BucketClosed, QuotaFinalized, QuotaReleased, QuotaReserved, SessionCompleted, SessionStarted,
        SessionTerminated,
    },
    topology::DASH_QUEUE,
};
use jiff::Timestamp;
use onceward::{AnyHandler, Envelope, prelude::*};
use serde::Serialize;
use std::time::Duration;
use uuid::Uuid;

/// How long a message of a newer version waits for a newer worker.
const NEWER_VERSION_SNOOZE: Duration = Duration::from_secs(60);

pub(super) fn consumer() -> Consumer {
    Consumer::transactional("realtime-dash", DASH_QUEUE).on_any(CountEvents).into()
}

/// Counts events of all types together: a turn's events are interleaved, and one statement counts many of them.
struct CountEvents;

impl AnyHandler for CountEvents {
    async fn handle_all(&self, tx: &mut Tx, batch: &[&Envelope]) -> Result<(), Failure> {
        let events: Vec<CountedEvent> =
            batch.iter().filter_map(|envelope| counted_event(envelope).transpose()).collect::<Result<_, _>>()?;
        Ok(store::count(tx, &events).await?)
    }
}

type ParseEnvelope = fn(&Envelope) -> Result<CountedEvent, Failure>;

const COUNTED_TYPES: &[(&str, ParseEnvelope)] = &[
    (SessionStarted::TYPE, parse::<SessionStarted>),
    (SessionCompleted::TYPE, parse::<SessionCompleted>),
    (SessionTerminated::TYPE, parse::<SessionTerminated>),
    (AnswerUpserted::TYPE, parse::<AnswerUpserted>),
    (QuotaReserved::TYPE, parse::<QuotaReserved>),
    (QuotaReleased::TYPE, parse::<QuotaReleased>),
    (QuotaFinalized::TYPE, parse::<QuotaFinalized>),
    (BucketClosed::TYPE, parse::<BucketClosed>),
    (LagProbe::TYPE, parse::<LagProbe>),
];

/// Returns what to count for a message. Unknown event types are ignored. A newer version of a known type is snoozed
/// until a newer worker handles it, as with any consumer.
fn counted_event(envelope: &Envelope) -> Result<Option<CountedEvent>, Failure> {
    let event_type = &envelope.event_type;
    if let Some((_, parse)) = COUNTED_TYPES.iter().find(|(name, _)| *name == event_type.as_str()) {
        return parse(envelope).map(Some);
    }
    let same_name = |name: &str| name.rsplit_once('.').is_some_and(|(name, _)| name == event_type.name());
    match COUNTED_TYPES.iter().any(|(name, _)| same_name(name)) {
        true => Err(Failure::snooze(NEWER_VERSION_SNOOZE, format!("{event_type} is newer than this worker"))),
        false => Ok(None),
    }
}

fn parse<E: Countable>(envelope: &Envelope) -> Result<CountedEvent, Failure> {
    let event = E::deserialize(envelope.payload.value());
    let event = event.map_err(|error| Failure::permanent(format!("the payload cannot be parsed: {error}")))?;
    Ok(event.to_counted(envelope.occurred_at))
}

/// The position of a session that has submitted nothing: the first page.
pub(super) const START: &str = "";
/// The position of a session that has answered everything. No page has this id.
pub(super) const END: &str = "@end";

/// The counted part of one event, as `surveys.dash_count` receives it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CountedEvent {
    survey_id: Uuid,
    collector_id: Option<Uuid>,
    bucket_id: Option<Uuid>,
    session_id: Option<Uuid>,
    kind: &'static str,
    /// A reason, or the id of the submitted page.
    detail: Option<String>,
    /// The page that the respondent sees after the event, and its index.
    #[serde(rename = "stands_at")]
    current_page: Option<String>,
    page_index: Option<i32>,
    at: Timestamp,
}

impl CountedEvent {
    fn new(survey_id: Uuid, session_id: Option<Uuid>, kind: &'static str, at: Timestamp) -> Self {
        let (collector_id, bucket_id, detail, current_page, page_index) = (None, None, None, None, None);
        Self { survey_id, collector_id, bucket_id, session_id, kind, detail, current_page, page_index, at }
    }

    fn collector(self, id: Uuid) -> Self {
        Self { collector_id: Some(id), ..self }
    }

    fn bucket(self, id: Uuid) -> Self {
        Self { bucket_id: Some(id), ..self }
    }

    fn at_page(self, page: &str, index: i32) -> Self {
        Self { current_page: Some(page.to_owned()), page_index: Some(index), ..self }
    }

    fn detail(self, detail: &str) -> Self {
        Self { detail: Some(detail.to_owned()), ..self }
    }
}

/// An event type that is counted.
trait Countable: Event {
    /// Returns what to count for this event, which happened at `at`.
    fn to_counted(&self, at: Timestamp) -> CountedEvent;
}

impl Countable for SessionStarted {
    fn to_counted(&self, at: Timestamp) -> CountedEvent {
        let event = CountedEvent::new(self.survey_id, Some(self.session_id), "started", at);
        event.collector(self.collector_id).at_page(START, 0)
    }
}

impl Countable for SessionCompleted {
    fn to_counted(&self, at: Timestamp) -> CountedEvent {
        let event = CountedEvent::new(self.survey_id, Some(self.session_id), "completed", at);
        event.collector(self.collector_id).at_page(END, i32::MAX)
    }
}

impl Countable for SessionTerminated {
    fn to_counted(&self, at: Timestamp) -> CountedEvent {
        CountedEvent::new(self.survey_id, Some(self.session_id), "terminated", at)
            .collector(self.collector_id)
            .detail(self.reason.as_str())
    }
}

impl Countable for AnswerUpserted {
    fn to_counted(&self, at: Timestamp) -> CountedEvent {
        let event = CountedEvent::new(self.survey_id, Some(self.session_id), "page", at);
        let event = event.collector(self.collector_id).detail(&self.page_id);
        let to_i32 = |index: u32| i32::try_from(index).unwrap_or(i32::MAX);
        match (&self.next_page_id, self.next_page_index) {
            (Some(next), Some(index)) => event.at_page(next, to_i32(index)),
            (None, Some(_)) => event.at_page(END, i32::MAX),
            (_, None) => event.at_page(&self.page_id, to_i32(self.page_index)),
        }
    }
}

impl Countable for LagProbe {
    fn to_counted(&self, _: Timestamp) -> CountedEvent {
        // The database sent it, so its time is by the database's clock.
        CountedEvent::new(self.survey_id, None, "probe", self.sent_at)
    }
}

impl Countable for QuotaReserved {
    fn to_counted(&self, at: Timestamp) -> CountedEvent {
        CountedEvent::new(self.survey_id, Some(self.session_id), "reserved", at).bucket(self.bucket_id)
    }
}

impl Countable for QuotaReleased {
    fn to_counted(&self, at: Timestamp) -> CountedEvent {
        CountedEvent::new(self.survey_id, Some(self.session_id), "released", at).bucket(self.bucket_id)
    }
}

impl Countable for QuotaFinalized {
    fn to_counted(&self, at: Timestamp) -> CountedEvent {
        CountedEvent::new(self.survey_id, Some(self.session_id), "finalized", at).bucket(self.bucket_id)
    }
}

impl Countable for BucketClosed {
    fn to_counted(&self, at: Timestamp) -> CountedEvent {
        CountedEvent::new(self.survey_id, None, "bucket_closed", at).bucket(self.bucket_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward::envelope::{CorrelationId, ENVELOPE_SCHEMA_VERSION, IdempotencyKey};
    use serde_json::Map;

    fn envelope(event_type: &str, payload: serde_json::Value) -> Envelope {
        Envelope {
            event_id: Uuid::now_v7(),
            event_type: event_type.parse().unwrap(),
            schema_version: ENVELOPE_SCHEMA_VERSION,
            tenant_id: TenantId::new("acme").unwrap(),
            correlation_id: CorrelationId::generate(),
            causation_id: None,
            idempotency_key: IdempotencyKey::new("key").unwrap(),
            actor: None,
            occurred_at: Timestamp::UNIX_EPOCH,
            extensions: Map::new(),
            payload: payload.into(),
            trace: None,
        }
    }

    #[test]
    fn a_newer_version_is_snoozed_and_other_event_types_are_ignored() {
        let id = Uuid::now_v7();
        let closed = json!({"bucket_id": id, "survey_id": id, "filled": 1, "target": 1, "more": true});
        let known =
            counted_event(&envelope("quota.bucket_closed.v1", closed.clone())).unwrap().expect("the event is counted");
        assert_eq!((known.kind, known.bucket_id), ("bucket_closed", Some(id)));
        assert!(matches!(
            counted_event(&envelope("quota.bucket_closed.v2", closed.clone())),
            Err(Failure::Snooze { .. })
        ));
        assert!(counted_event(&envelope("session.resumed.v1", closed)).unwrap().is_none());
        assert!(matches!(counted_event(&envelope("session.started.v1", json!({}))), Err(Failure::Permanent { .. })));
    }
}
