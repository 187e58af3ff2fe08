//! Draining the outbox to a broker, against the same client that publishes the same messages from memory.

use crate::{
    Settings,
    figure::{Figure, Progress},
    load,
    server::{Bench, Instance},
    service::{Done, Kind},
    store,
};
use jiff::Timestamp;
use onceward::{
    Envelope, TenantId,
    envelope::{CorrelationId, ENVELOPE_SCHEMA_VERSION, IdempotencyKey},
    messaging::Event,
    transport::{BusKind, Delivery, Parcel, Verdict, wire},
};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_postgres::Client;
use uuid::Uuid;

const MESSAGES: u64 = 200_000;
/// Neither the machine nor the broker is equally fast all the time, so both ways are measured in turn: this often at least,
const ROUNDS: u32 = 3;
/// and as often as there is time for.
const TIME_FOR_ROUNDS: Duration = Duration::from_secs(40);
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
    let (mut in_memory, mut in_outbox) = (Seconds::default(), Seconds::default());
    progress.at("warming up");
    from_memory(&bench, count).await?;
    let until = Instant::now() + TIME_FOR_ROUNDS;
    while in_memory.runs < ROUNDS || Instant::now() < until {
        let round = in_memory.runs + 1;
        progress.at(format!("round {round}: preloading"));
        let instance = bench.instance()?;
        load::preload(&instance, settings.clients(), count, load::BATCH).await?;
        progress.at(format!("round {round}: carrying"));
        in_outbox.add(from_outbox(&bench, instance).await?);
        progress.at(format!("round {round}: {:.0} msg/s so far; now from memory", in_outbox.rate(count)));
        in_memory.add(from_memory(&bench, count).await?);
    }
    bench.end().await?;
    let (carried, limit) = (in_outbox.rate(count), in_memory.rate(count));
    Ok(match BARS.iter().find(|(with_bar, _)| *with_bar == bus) {
        Some((_, bar)) => Figure::at_least("relay", bus.name(), carried, "msg/s", limit, *bar),
        None => Figure::shown("relay", bus.name(), carried, "msg/s", limit),
    })
}

/// How long several runs took.
#[derive(Default)]
struct Seconds {
    sum: f64,
    runs: u32,
}

impl Seconds {
    fn add(&mut self, seconds: f64) {
        self.sum += seconds;
        self.runs += 1;
    }

    /// Messages a second, if each run is of `count`.
    fn rate(&self, count: u64) -> f64 {
        count as f64 * f64::from(self.runs) / self.sum
    }
}

/// Seconds that the relay takes for all that waits, from its start: it connects and declares like [`from_memory`].
async fn from_outbox(bench: &Bench, mut instance: Instance) -> anyhow::Result<f64> {
    let owner = bench.owner().await?;
    let began: Timestamp = owner.query_one(store::NOW, &[]).await?.get(0);
    instance.run_relay();
    let ended = published(&owner).await?;
    instance.stop().await;
    Ok(ended.duration_since(began).as_secs_f64())
}

/// Seconds that the client takes without the outbox: it connects, declares and publishes in batches, with as many of them
/// on their way as the relay has.
async fn from_memory(bench: &Bench, count: u64) -> anyhow::Result<f64> {
    let settings = bench.config().relay();
    let parcels: Vec<Parcel> = (0..count).map(|_| parcel()).collect::<anyhow::Result<_>>()?;
    let mut batches: Vec<Vec<Parcel>> = parcels.chunks(settings.batch).map(<[Parcel]>::to_vec).collect();
    let share = batches.len().div_ceil(settings.tasks);
    let started = Instant::now();
    let broker = bench.broker()?;
    broker.declare().await?;
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
    let elapsed = started.elapsed();
    broker.close().await;
    Ok(elapsed.as_secs_f64())
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
