//! Draining a preloaded queue, and draining it while producers run.

use crate::{
    BenchSettings,
    figure::{Figure, ProgressReporter},
    load::{self, Producers},
    server::Bench,
};
use onceward::broker::BusKind;
use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

const NAME: &str = "queue";
const PRODUCERS: usize = 2;

pub(crate) async fn run(settings: &BenchSettings) -> anyhow::Result<Vec<Figure>> {
    let bus = settings.bus.unwrap_or(BusKind::Postgres);
    let bench = Bench::on_bus(settings, false, bus).await?;
    let time = Duration::from_secs(settings.seconds.unwrap_or(10));
    let count = settings.messages.unwrap_or(100_000);
    let mut progress =
        ProgressReporter::new(format!("queue: limit of one-row inserts, {} clients", settings.clients()));
    let limit = load::one_row_inserts(&bench, settings.clients(), time.min(Duration::from_secs(8))).await?;

    progress.report(format!("{limit:.0} tx/s; preloading {count} messages"));
    let producer = bench.instance()?;
    let before = bench.wal_bytes().await?;
    load::preload(&producer, settings.clients(), count, load::BATCH).await?;
    let wal_enqueue = (bench.wal_bytes().await? - before) / count as f64;

    progress.report("draining");
    let before = bench.wal_bytes().await?;
    let mut worker = bench.instance()?;
    let started = Instant::now();
    worker.run_relay();
    worker.run_consumers();
    load::wait_until_drained(&bench, 0, count).await?;
    let drained = count as f64 / started.elapsed().as_secs_f64();
    let wal_drain = (bench.wal_bytes().await? - before) / count as f64;

    progress.report("draining while producers run");
    let producers = Producers::start(&bench, &producer, PRODUCERS);
    load::handled_rate(&bench, Duration::from_secs(1)).await;
    let with_producers = load::handled_rate(&bench, time).await;
    let published = producers.published.clone();
    producers.stop().await?;
    load::wait_until_handled(&bench, published.load(Ordering::Relaxed)).await?;
    let limit_again = load::one_row_inserts(&bench, settings.clients(), time.min(Duration::from_secs(8))).await?;
    let limit = (limit + limit_again) / 2.0;

    worker.stop().await;
    producer.stop().await;
    bench.shut_down().await?;
    if bus != BusKind::Postgres {
        return Ok(vec![
            Figure::without_bar(bus.name(), "queue_drained", drained, "msg/s", limit),
            Figure::without_bar(bus.name(), "queue_with_producers", with_producers, "msg/s", limit),
        ]);
    }
    Ok(vec![
        Figure::at_least(NAME, "drained", drained, "msg/s", limit, 3.0),
        Figure::at_least(NAME, "with_producers", with_producers, "msg/s", limit, 1.4),
        Figure::at_most(NAME, "wal_to_enqueue", wal_enqueue, "bytes/msg", 600.0),
        Figure::at_most(NAME, "wal_to_drain", wal_drain, "bytes/msg", 300.0),
    ])
}
