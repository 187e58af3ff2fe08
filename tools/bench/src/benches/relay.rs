//! Draining the outbox to a broker, relative to the same client publishing the same messages from memory.

use crate::{
    BenchSettings,
    figure::{Figure, ProgressReporter},
    load,
    server::{Bench, PlatformInstance},
    service::{BenchEvent, PublishKind},
    store,
};
use jiff::Timestamp;
use onceward::{
    Envelope, TenantId,
    broker::{BusKind, Delivery, Parcel, PublishOutcome, wire},
    envelope::{CorrelationId, ENVELOPE_SCHEMA_VERSION, IdempotencyKey},
    messaging::Event,
};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_postgres::Client;
use uuid::Uuid;

const MESSAGES: u64 = 200_000;
const TIMEOUT: Duration = Duration::from_secs(600);
/// The speed of machine and broker varies, so both ways are measured in alternation, at least this many times.
const MIN_ROUNDS: u32 = 3;
/// Rounds are repeated until this time has passed.
const TIME_FOR_ROUNDS: Duration = Duration::from_secs(40);
/// The bars of RabbitMQ and Kafka; the others have none.
const BARS: [(BusKind, f64); 2] = [(BusKind::RabbitMq, 0.7), (BusKind::Kafka, 0.6)];

pub(crate) async fn run(settings: &BenchSettings) -> anyhow::Result<Vec<Figure>> {
    let buses = match settings.bus {
        Some(bus) => vec![bus],
        None => BARS.iter().map(|(bus, _)| *bus).collect(),
    };
    let mut figures = Vec::new();
    for bus in buses {
        figures.push(measure(settings, bus).await?);
    }
    Ok(figures)
}

async fn measure(settings: &BenchSettings, bus: BusKind) -> anyhow::Result<Figure> {
    let count = settings.messages.unwrap_or(MESSAGES);
    let mut progress = ProgressReporter::new(format!("relay: {count} messages to {}", bus.name()));
    let bench = Bench::on_bus(settings, false, bus).await?;
    let (mut from_memory_runs, mut from_outbox_runs) = (RunTimes::default(), RunTimes::default());
    progress.report("warming up");
    from_memory(&bench, count).await?;
    let deadline = Instant::now() + TIME_FOR_ROUNDS;
    while from_memory_runs.runs < MIN_ROUNDS || Instant::now() < deadline {
        let round = from_memory_runs.runs + 1;
        progress.report(format!("round {round}: preloading"));
        let instance = bench.instance()?;
        load::preload(&instance, settings.clients(), count, load::BATCH).await?;
        progress.report(format!("round {round}: relaying"));
        from_outbox_runs.add(from_outbox(&bench, instance).await?);
        progress.report(format!("round {round}: {:.0} msg/s so far; now from memory", from_outbox_runs.rate(count)));
        from_memory_runs.add(from_memory(&bench, count).await?);
    }
    bench.shut_down().await?;
    let (relayed, limit) = (from_outbox_runs.rate(count), from_memory_runs.rate(count));
    Ok(match BARS.iter().find(|(with_bar, _)| *with_bar == bus) {
        Some((_, bar)) => Figure::at_least("relay", bus.name(), relayed, "msg/s", limit, *bar),
        None => Figure::without_bar("relay", bus.name(), relayed, "msg/s", limit),
    })
}

/// The total duration of several runs.
#[derive(Default)]
struct RunTimes {
    seconds: f64,
    runs: u32,
}

impl RunTimes {
    fn add(&mut self, seconds: f64) {
        self.seconds += seconds;
        self.runs += 1;
    }

    /// Returns the messages per second if each run has `count` messages.
    fn rate(&self, count: u64) -> f64 {
        count as f64 * f64::from(self.runs) / self.seconds
    }
}

/// Returns the seconds that the relay takes to drain the outbox, including connecting and declaring, as
/// [`from_memory`].
async fn from_outbox(bench: &Bench, mut instance: PlatformInstance) -> anyhow::Result<f64> {
    let owner = bench.owner().await?;
    let started: Timestamp = owner.query_one(store::NOW, &[]).await?.get(0);
    instance.run_relay();
    let ended = wait_until_published(&owner).await?;
    instance.stop().await;
    Ok(ended.duration_since(started).as_secs_f64())
}

/// Returns the seconds that the client takes without the outbox: it connects, declares and publishes in batches, with
/// as many batches in flight as the relay.
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
        let task_batches = batches.split_off(batches.len().saturating_sub(share));
        let broker = broker.clone();
        tasks.spawn(async move {
            for batch in task_batches {
                let verdicts = broker.publish(batch).await?;
                anyhow::ensure!(
                    verdicts.iter().all(|verdict| *verdict == PublishOutcome::Accepted),
                    "the broker refused a message"
                );
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

/// Creates the same message that producers publish.
fn parcel() -> anyhow::Result<Parcel> {
    let done = BenchEvent::new(PublishKind::Deduplicated);
    let tenant = TenantId::new("bench")?;
    let topic = done.topic(&tenant);
    let event_id = Uuid::now_v7();
    let envelope = Envelope {
        event_id,
        event_type: BenchEvent::TYPE.parse()?,
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
        topic: topic.to_string(),
        ordering_key: None,
        priority: 0,
        queue_tenant: tenant,
        attempt: 1,
        published_at: Timestamp::now(),
        first_error: None,
        first_failed_at: None,
        unknown_since: None,
    };
    Ok(wire::pack(&delivery, topic.into(), true)?)
}

/// Waits until the outbox is empty and returns when the last message was published. Polls rarely, because the query
/// takes time from what it measures.
async fn wait_until_published(owner: &Client) -> anyhow::Result<Timestamp> {
    let deadline = Instant::now() + TIMEOUT;
    while owner.query_one(store::UNREAD_LANES, &[]).await?.get::<_, i64>(0) > 0 {
        anyhow::ensure!(Instant::now() < deadline, "the outbox was not drained within {TIMEOUT:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(owner.query_one(store::LAST_PUBLISHED, &[]).await?.get(0))
}
