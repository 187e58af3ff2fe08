//! Draining the outbox to a broker, against the same client that publishes the same messages from memory.

use crate::{
    Settings,
    figure::{Figure, Progress},
    load,
    server::Bench,
    service::{Done, Kind},
    store,
};
use jiff::Timestamp;
use onceward::{
    Envelope, TenantId,
    envelope::{CorrelationId, ENVELOPE_SCHEMA_VERSION, IdempotencyKey},
    messaging::Event,
    transport::{Broker, BusKind, Delivery, Parcel, Verdict, wire},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;
use tokio_postgres::Client;
use uuid::Uuid;

const MESSAGES: u64 = 200_000;
/// RabbitMQ's and Kafka's bars; the others are shown.
const BARS: [(BusKind, f64); 2] = [(BusKind::RabbitMq, 0.7), (BusKind::Kafka, 0.6)];

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let buses = match settings.bus {
        Some(bus) => vec![bus],
        None => BARS.iter().map(|(bus, _)| *bus).collect(),
    };
    let mut figures = Vec::new();
    for bus in buses {
        figures.push(on(settings, bus).await?);
    }
    Ok(figures)
}

async fn on(settings: &Settings, bus: BusKind) -> anyhow::Result<Figure> {
    let count = settings.messages.unwrap_or(MESSAGES);
    let mut progress = Progress::new(format!("relay: {count} messages to {}", bus.name()));
    let bench = Bench::on_bus(settings, false, bus).await?;
    let broker = bench.broker()?;
    broker.declare().await?;
    let limit_before = from_memory(&bench, &broker, count).await?;

    progress.at(format!("{limit_before:.0} msg/s from memory; preloading"));
    let mut instance = bench.instance()?;
    load::preload(&instance, settings.clients(), count, load::BATCH).await?;
    progress.at("carrying");
    let owner = bench.owner().await?;
    let began: Timestamp = owner.query_one(store::NOW, &[]).await?.get(0);
    instance.run_relay();
    let ended = published(&owner).await?;
    let carried = count as f64 / ended.duration_since(began).as_secs_f64();

    progress.at(format!("{carried:.0} msg/s; once more from memory"));
    instance.stop().await;
    let limit = (limit_before + from_memory(&bench, &broker, count).await?) / 2.0;
    broker.close().await;
    bench.end().await?;
    Ok(match BARS.iter().find(|(with_bar, _)| *with_bar == bus) {
        Some((_, bar)) => Figure::at_least("relay", bus.name(), carried, "msg/s", limit, *bar),
        None => Figure::shown("relay", bus.name(), carried, "msg/s", limit),
    })
}

/// Messages a second, in batches and with as many of them on their way as the relay has.
async fn from_memory(bench: &Bench, broker: &Arc<dyn Broker>, count: u64) -> anyhow::Result<f64> {
    let settings = bench.config().relay();
    let parcels: Vec<Parcel> = (0..count).map(|_| parcel()).collect::<anyhow::Result<_>>()?;
    let mut batches: Vec<Vec<Parcel>> = parcels.chunks(settings.batch).map(<[Parcel]>::to_vec).collect();
    let share = batches.len().div_ceil(settings.tasks);
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    while !batches.is_empty() {
        let mine = batches.split_off(batches.len().saturating_sub(share));
        let broker = broker.clone();
        tasks.spawn(async move {
            for batch in mine {
                let verdicts = broker.publish(batch).await?;
                anyhow::ensure!(verdicts.iter().all(|one| *one == Verdict::Accepted), "the broker refused a message");
            }
            Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(count as f64 / started.elapsed().as_secs_f64())
}

/// The same message that producers publish.
fn parcel() -> anyhow::Result<Parcel> {
    let done = Done::new(Kind::Deduplicated);
    let tenant = TenantId::new("bench")?;
    let topic: onceward::topology::Topic = done.topic(&tenant).parse()?;
    let event_id = Uuid::now_v7();
    let envelope = Envelope {
        event_id,
        event_type: Done::TYPE.parse()?,
        schema_version: ENVELOPE_SCHEMA_VERSION,
        tenant_id: tenant.clone(),
        correlation_id: CorrelationId::from(event_id),
        causation_id: None,
        idempotency_key: IdempotencyKey::new(done.idempotency_key().unwrap_or_default())?,
        actor: None,
        occurred_at: Timestamp::now(),
        extensions: Default::default(),
        payload: serde_json::to_value(&done)?.into(),
        trace: None,
    };
    let delivery = Delivery {
        envelope,
        topic: done.topic(&tenant),
        ordering_key: None,
        priority: 0,
        queue_tenant: tenant,
        attempt: 1,
        published_at: Timestamp::now(),
        first_error: None,
        first_failed_at: None,
    };
    Ok(wire::pack(&delivery, topic.into(), true)?)
}

/// Waits until nothing is left in the outbox, and says when that was. Looking costs what it looks at, so it looks seldom.
async fn published(owner: &Client) -> anyhow::Result<Timestamp> {
    let patience = Instant::now() + Duration::from_secs(600);
    while owner.query_one(store::UNREAD_LANES, &[]).await?.get::<_, i64>(0) > 0 {
        anyhow::ensure!(Instant::now() < patience, "the outbox was not drained in time");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(owner.query_one(store::LAST_PUBLISHED, &[]).await?.get(0))
}
