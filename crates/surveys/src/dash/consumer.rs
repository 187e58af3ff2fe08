//! `surveys.dash.v1`: events, counted once each in the transaction that settles their messages.

use super::{
    facts::{Counted, Fact},
    store,
};
use crate::{
    events::{
        AnswerUpserted, BucketClosed, QuotaFinalized, QuotaReleased, QuotaReserved, SessionCompleted, SessionStarted,
        SessionTerminated,
    },
    topology::{ANSWERS, QUOTA, SESSIONS},
};
use onceward::{Envelope, messaging::AnyHandler, prelude::*};
use std::time::Duration;

const QUEUE: &str = "surveys.dash.v1";
const NEWER_WAITS: Duration = Duration::from_secs(60);

/// The queue, with one lane a tenant: what is counted together is counted by one worker, which finds its rows free.
pub(crate) fn topology(topology: Topology, dead: &str) -> Topology {
    topology
        .queue(Queue::work(QUEUE).shards(1).dead_letter(dead))
        .bind(SESSIONS, "tenant.*.session.*", QUEUE)
        .bind(ANSWERS, "tenant.*.answer.*", QUEUE)
        .bind(QUOTA, "tenant.*.quota.*", QUEUE)
}

pub(crate) fn consumer() -> Consumer {
    Consumer::transactional("realtime-dash", QUEUE).on_any(Count)
}

/// Counts events of all kinds together: they come in turns, and one statement is asked for many of them.
struct Count;

impl AnyHandler for Count {
    async fn handle_all(&self, tx: &mut Tx, batch: &[&Envelope]) -> Result<(), Failure> {
        let facts: Vec<Fact> =
            batch.iter().filter_map(|envelope| fact(envelope).transpose()).collect::<Result<_, _>>()?;
        Ok(store::count(tx, &facts).await?)
    }
}

type Read = fn(&Envelope) -> Result<Fact, Failure>;

const COUNTED: &[(&str, Read)] = &[
    (SessionStarted::TYPE, read::<SessionStarted>),
    (SessionCompleted::TYPE, read::<SessionCompleted>),
    (SessionTerminated::TYPE, read::<SessionTerminated>),
    (AnswerUpserted::TYPE, read::<AnswerUpserted>),
    (QuotaReserved::TYPE, read::<QuotaReserved>),
    (QuotaReleased::TYPE, read::<QuotaReleased>),
    (QuotaFinalized::TYPE, read::<QuotaFinalized>),
    (BucketClosed::TYPE, read::<BucketClosed>),
];

/// What is counted of a message, if anything: kinds that are not known here are for others. A newer version of a known kind
/// waits for a newer worker, as it would with any consumer.
fn fact(envelope: &Envelope) -> Result<Option<Fact>, Failure> {
    let event_type = &envelope.event_type;
    if let Some((_, read)) = COUNTED.iter().find(|(name, _)| *name == event_type.as_str()) {
        return read(envelope).map(Some);
    }
    let known = |name: &str| name.rsplit_once('.').is_some_and(|(name, _)| name == event_type.name());
    match COUNTED.iter().any(|(name, _)| known(name)) {
        true => Err(Failure::snooze(NEWER_WAITS, format!("{event_type} is not known here yet"))),
        false => Ok(None),
    }
}

fn read<E: Counted>(envelope: &Envelope) -> Result<Fact, Failure> {
    let event = E::deserialize(envelope.payload.value());
    let event = event.map_err(|error| Failure::permanent(format!("the payload is not what is counted: {error}")))?;
    Ok(event.fact(envelope.occurred_at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward::envelope::{CorrelationId, ENVELOPE_SCHEMA_VERSION, IdempotencyKey};
    use serde_json::Map;
    use uuid::Uuid;

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
            occurred_at: jiff::Timestamp::UNIX_EPOCH,
            extensions: Map::new(),
            payload: payload.into(),
            trace: None,
        }
    }

    #[test]
    fn a_newer_version_waits_and_what_is_for_others_is_passed_over() {
        let id = Uuid::now_v7();
        let closed = json!({"bucket_id": id, "survey_id": id, "filled": 1, "target": 1, "more": true});
        let known = fact(&envelope("quota.bucket_closed.v1", closed.clone())).unwrap().expect("it is counted");
        assert_eq!((known.kind, known.bucket_id), ("bucket_closed", Some(id)));
        assert!(matches!(fact(&envelope("quota.bucket_closed.v2", closed.clone())), Err(Failure::Snooze { .. })));
        assert!(fact(&envelope("session.resumed.v1", closed)).unwrap().is_none());
        assert!(matches!(fact(&envelope("session.started.v1", json!({}))), Err(Failure::Permanent { .. })));
    }
}
