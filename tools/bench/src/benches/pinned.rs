//! The rate while another session holds an old snapshot, relative to without.
//!
//! The rate without a snapshot is measured before and after, so that other causes, above all checkpoints, are not
//! attributed to the snapshot.

use crate::{
    BenchSettings,
    figure::{Figure, ProgressReporter},
    load::{self, Producers},
    server::Bench,
    store,
};
use std::time::Duration;

const NAME: &str = "pinned";
const PRODUCERS: usize = 2;
/// How long the rate is measured, without the snapshot (each time) and with it.
const FREE_WINDOW: Duration = Duration::from_secs(10);
const PINNED_WINDOW: Duration = Duration::from_secs(20);

pub(crate) async fn run(settings: &BenchSettings) -> anyhow::Result<Vec<Figure>> {
    let bench = Bench::start(settings, false).await?;
    let held = Duration::from_secs(settings.seconds.unwrap_or(90));
    let mut worker = bench.instance()?;
    worker.run_consumers();
    let producer = bench.instance()?;
    let producers = Producers::start(&bench, &producer, PRODUCERS);
    let mut progress = ProgressReporter::new("pinned: rate without a held snapshot");
    load::handled_rate(&bench, Duration::from_secs(3)).await;
    let before = load::handled_rate(&bench, FREE_WINDOW).await;

    let holder = bench.owner().await?;
    holder.batch_execute(store::HOLD_SNAPSHOT).await?;
    let mut waited = Duration::ZERO;
    while waited + PINNED_WINDOW < held {
        let step = Duration::from_secs(3).min(held - PINNED_WINDOW - waited);
        let rate = load::handled_rate(&bench, step).await;
        waited += step;
        progress.report(format!("{before:.0} msg/s free; held {} s: {rate:.0} msg/s", waited.as_secs()));
    }
    let pinned = load::handled_rate(&bench, PINNED_WINDOW).await;
    holder.batch_execute("ROLLBACK").await?;
    let after = load::handled_rate(&bench, FREE_WINDOW).await;
    producers.stop().await?;
    worker.stop().await;
    producer.stop().await;
    bench.shut_down().await?;
    Ok(vec![Figure::at_least(NAME, "rate_while_pinned", pinned, "msg/s", (before + after) / 2.0, 0.9)])
}
