//! The rate with a million messages waiting, against ten thousand.

use crate::{
    Settings,
    figure::{Figure, Progress},
    load,
    server::Bench,
};
use std::{sync::atomic::Ordering, time::Instant};

const NAME: &str = "backlog";
const SMALL: u64 = 10_000;
/// How many messages each rate is taken over.
const TAKEN: u64 = 200_000;

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let bench = Bench::start(settings, false).await?;
    let large = settings.messages.unwrap_or(1_000_000).max(TAKEN);
    let producer = bench.instance()?;
    let mut progress = Progress::new(format!("backlog: {} waiting", SMALL));
    let mut seconds = 0.0;
    for round in 0..TAKEN / SMALL {
        load::preload(&producer, settings.clients(), SMALL, load::BATCH).await?;
        seconds += drain(&bench, SMALL).await?;
        progress.at(format!("round {round}"));
    }
    let small_rate = TAKEN as f64 / seconds;

    let mut progress = Progress::new(format!("backlog: preloading {large}"));
    let mut loaded = 0;
    while loaded < large {
        let chunk = (large - loaded).min(100_000);
        load::preload(&producer, settings.clients(), chunk, load::BATCH * 5).await?;
        loaded += chunk;
        progress.at(format!("{loaded} messages"));
    }
    let large_rate = TAKEN as f64 / drain(&bench, TAKEN).await?;
    producer.stop().await;
    bench.end().await?;
    Ok(vec![Figure::at_least(NAME, "rate_with_a_long_backlog", large_rate, "msg/s", small_rate, 0.9)])
}

/// Seconds a fresh worker takes from its first message to its `count`th.
async fn drain(bench: &Bench, count: u64) -> anyhow::Result<f64> {
    let before = bench.seen.handled.load(Ordering::Relaxed);
    let mut worker = bench.instance()?;
    worker.run_consumers();
    load::handled(bench, before + 1).await?;
    let started = Instant::now();
    load::handled(bench, before + count).await?;
    let seconds = started.elapsed().as_secs_f64();
    worker.stop().await;
    Ok(seconds)
}
