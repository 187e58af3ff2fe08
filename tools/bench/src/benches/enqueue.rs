//! A business insert with one publish, relative to the same without.

use crate::{
    BenchSettings,
    figure::{Figure, ProgressReporter},
    load::{self, Operation},
    server::Bench,
    service::{BenchEvent, PublishKind},
    store,
};
use onceward::{Db, outbox};
use std::{future::Future, pin::Pin, time::Duration};
use uuid::Uuid;

const ROUNDS: u32 = 4;
const NAME: &str = "enqueue";

pub(crate) async fn run(settings: &BenchSettings) -> anyhow::Result<Vec<Figure>> {
    let bench = Bench::start(settings, false).await?;
    let instance = bench.instance()?;
    let round = Duration::from_secs(settings.seconds.unwrap_or(12)) / ROUNDS;
    let mut progress = ProgressReporter::new(format!("enqueue: {} clients", settings.clients()));
    let (mut rates, mut wal) = ([0.0; 4], [0.0; 4]);
    load::publish(instance.db(), 10).await?;
    // In alternation, so that variations of the machine's speed affect all of them.
    for n in 1..=ROUNDS {
        for (i, publish) in
            [None, Some(PublishKind::Plain), Some(PublishKind::Ordered), Some(PublishKind::Deduplicated)]
                .into_iter()
                .enumerate()
        {
            let before = bench.wal_bytes().await?;
            let rate = load::rate(settings.clients(), round, async |_| {
                Ok(Box::new(BusinessInsert { db: instance.db().clone(), publish }) as Box<dyn Operation>)
            })
            .await?;
            rates[i] += rate / f64::from(ROUNDS);
            wal[i] += (bench.wal_bytes().await? - before) / (rate * round.as_secs_f64()) / f64::from(ROUNDS);
            progress.report(format!("round {n} of {ROUNDS}"));
        }
    }
    instance.stop().await;
    bench.shut_down().await?;
    Ok(vec![
        Figure::at_least(NAME, "with_publish", rates[1], "tx/s", rates[0], 0.70),
        Figure::at_least(NAME, "with_ordered_publish", rates[2], "tx/s", rates[0], 0.70),
        Figure::at_least(NAME, "with_deduplicated_publish", rates[3], "tx/s", rates[0], 0.70),
        Figure::at_most(NAME, "wal_of_a_publish", wal[3] - wal[0], "bytes", 600.0),
    ])
}

struct BusinessInsert {
    db: Db,
    publish: Option<PublishKind>,
}

impl Operation for BusinessInsert {
    fn once(&mut self) -> Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send + '_>> {
        Box::pin(async {
            let mut tx = self.db.begin(load::scope()).await?;
            tx.execute(store::INSERT_BUSINESS, &[&"bench", &Uuid::now_v7(), &"a business row of ordinary size"])
                .await?;
            if let Some(kind) = self.publish {
                outbox::publish(&mut tx, &BenchEvent::new(kind)).await?;
            }
            Ok(tx.commit().await?)
        })
    }
}
