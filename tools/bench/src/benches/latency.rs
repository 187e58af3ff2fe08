//! The time from commit to the start of the handler, on an idle system.

use crate::{
    BenchSettings,
    figure::{Figure, ProgressReporter},
    load,
    server::{Bench, PlatformInstance},
};
use std::time::{Duration, Instant};

const NAME: &str = "latency";
/// Long enough for consumers to become idle again.
const PAUSE: Duration = Duration::from_millis(40);

pub(crate) async fn run(settings: &BenchSettings) -> anyhow::Result<Vec<Figure>> {
    let bench = Bench::start(settings, true).await?;
    let samples = settings.messages.map_or(500, |messages| usize::try_from(messages).unwrap_or(usize::MAX));
    let mut worker = bench.instance()?;
    worker.run_consumers();
    let publisher = bench.instance()?;
    let mut progress =
        ProgressReporter::new(format!("latency: {samples} messages to another instance, then to the same"));
    let other = measure(&bench, &publisher, samples, &mut progress).await?;
    let same = measure(&bench, &worker, samples, &mut progress).await?;
    worker.stop().await;
    publisher.stop().await;
    bench.shut_down().await?;
    Ok(vec![
        Figure::at_most(NAME, "other_instance_p50", percentile(&other, 50), "ms", 2.0),
        Figure::at_most(NAME, "other_instance_p99", percentile(&other, 99), "ms", 6.0),
        Figure::at_most(NAME, "same_instance_p50", percentile(&same, 50), "ms", 2.0),
        Figure::at_most(NAME, "same_instance_p99", percentile(&same, 99), "ms", 6.0),
    ])
}

async fn measure(
    bench: &Bench,
    publisher: &PlatformInstance,
    samples: usize,
    progress: &mut ProgressReporter,
) -> anyhow::Result<Vec<f64>> {
    let mut waits = Vec::with_capacity(samples);
    for n in 0..samples + 10 {
        tokio::time::sleep(PAUSE).await;
        load::publish(publisher.db(), 1).await?;
        let committed = Instant::now();
        tokio::time::timeout(Duration::from_secs(10), bench.stats.signal.notified()).await?;
        let started = bench.stats.last_start.lock().take().unwrap_or(committed);
        // The first few open connections and prepare plans.
        if n >= 10 {
            waits.push(started.saturating_duration_since(committed).as_secs_f64() * 1000.0);
        }
        progress.report(format!("{n} messages"));
    }
    waits.sort_by(f64::total_cmp);
    Ok(waits)
}

fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}
