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
use onceward::{BatchHandler, InBatch, prelude::*};
use std::marker::PhantomData;

const QUEUE: &str = "surveys.dash.v1";

/// The queue, with one lane a tenant: what is counted together is counted by one worker, which finds its rows free.
pub(crate) fn topology(topology: Topology, dead: &str) -> Topology {
    topology
        .queue(Queue::work(QUEUE).shards(1).dead_letter(dead))
        .bind(SESSIONS, "tenant.*.session.*", QUEUE)
        .bind(ANSWERS, "tenant.*.answer.*", QUEUE)
        .bind(QUOTA, "tenant.*.quota.*", QUEUE)
}

pub(crate) fn consumer() -> Consumer {
    Consumer::transactional("realtime-dash", QUEUE)
        .on_batch(Count::<SessionStarted>::new())
        .on_batch(Count::<SessionCompleted>::new())
        .on_batch(Count::<SessionTerminated>::new())
        .on_batch(Count::<AnswerUpserted>::new())
        .on_batch(Count::<QuotaReserved>::new())
        .on_batch(Count::<QuotaReleased>::new())
        .on_batch(Count::<QuotaFinalized>::new())
        .on_batch(Count::<BucketClosed>::new())
}

/// Counts events of one kind.
struct Count<E>(PhantomData<fn(E)>);

impl<E> Count<E> {
    fn new() -> Self {
        Self(PhantomData)
    }
}

impl<E: Counted> BatchHandler for Count<E> {
    type Event = E;

    async fn handle_all(&self, tx: &mut Tx, batch: &[InBatch<'_, E>]) -> Result<(), Failure> {
        let fact = |message: &InBatch<'_, E>| message.received.event.fact(message.received.envelope.occurred_at);
        let facts: Vec<Fact> = batch.iter().map(fact).collect();
        Ok(store::count(tx, &facts).await?)
    }
}
