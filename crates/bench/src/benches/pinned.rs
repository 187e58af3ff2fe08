//! The rate while another session holds an old snapshot, against without.

use crate::{
    Settings,
    figure::{Figure, Progress},
    load::{self, Producers},
    server::Bench,
    store,
};
use std::time::Duration;

const NAME: &str = "pinned";
const PRODUCERS: usize = 2;
const WINDOW: Duration = Duration::from_secs(12);

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let bench = Bench::start(settings, false).await?;
    let held = Duration::from_secs(settings.seconds.unwrap_or(90));
    let mut worker = bench.instance()?;
    worker.run_consumers();
    let producer = bench.instance()?;
    let producers = Producers::start(&bench, &producer, PRODUCERS);
    let mut progress = Progress::new("pinned: rate without a held snapshot");
    load::handled_rate(&bench, Duration::from_secs(3)).await;
    let free = load::handled_rate(&bench, WINDOW).await;

    let holder = bench.owner().await?;
    holder.batch_execute(store::HOLD_SNAPSHOT).await?;
    let mut waited = Duration::ZERO;
    while waited + WINDOW < held {
        let step = Duration::from_secs(3).min(held - WINDOW - waited);
        let rate = load::handled_rate(&bench, step).await;
        waited += step;
        progress.at(format!("{free:.0} msg/s free; held {} s: {rate:.0} msg/s", waited.as_secs()));
    }
    let pinned = load::handled_rate(&bench, WINDOW).await;
    holder.batch_execute("ROLLBACK").await?;
    producers.stop().await?;
    worker.stop().await;
    producer.stop().await;
    bench.end().await?;
    Ok(vec![Figure::at_least(NAME, "rate_while_pinned", pinned, "msg/s", free, 0.9)])
}
