//! The rate with a million messages waiting, relative to ten thousand.

use crate::{
    BenchSettings,
    figure::{Figure, ProgressReporter},
    load,
    server::Bench,
};
use std::{sync::atomic::Ordering, time::Instant};

const NAME: &str = "backlog";
const SMALL: u64 = 10_000;
/// The number of messages over which each rate is measured.
const MEASURED: u64 = 200_000;

pub(crate) async fn run(settings: &BenchSettings) -> anyhow::Result<Vec<Figure>> {
    let bench = Bench::start(settings, false).await?;
    let large = settings.messages.unwrap_or(1_000_000).max(MEASURED);
    let producer = bench.instance()?;
    let mut progress = ProgressReporter::new(format!("backlog: {} waiting", SMALL));
    let mut seconds = 0.0;
    for round in 0..MEASURED / SMALL {
        load::preload(&producer, settings.clients(), SMALL, load::BATCH).await?;
        seconds += drain(&bench, SMALL).await?;
        progress.report(format!("round {round}"));
    }
    let small_rate = MEASURED as f64 / seconds;

    let mut progress = ProgressReporter::new(format!("backlog: preloading {large}"));
    let mut loaded = 0;
    while loaded < large {
        let chunk = (large - loaded).min(100_000);
        load::preload(&producer, settings.clients(), chunk, load::BATCH * 5).await?;
        loaded += chunk;
        progress.report(format!("{loaded} messages"));
    }
    let large_rate = MEASURED as f64 / drain(&bench, MEASURED).await?;
    producer.stop().await;
    bench.shut_down().await?;
    Ok(vec![Figure::at_least(NAME, "rate_with_a_long_backlog", large_rate, "msg/s", small_rate, 0.9)])
}

/// Returns the seconds that a new instance takes from its first message to its `count`th.
async fn drain(bench: &Bench, count: u64) -> anyhow::Result<f64> {
    let before = bench.stats.handled.load(Ordering::Relaxed);
    let mut worker = bench.instance()?;
    worker.run_consumers();
    load::wait_until_handled(bench, before + 1).await?;
    let started = Instant::now();
    load::wait_until_handled(bench, before + count).await?;
    let seconds = started.elapsed().as_secs_f64();
    worker.stop().await;
    Ok(seconds)
}
