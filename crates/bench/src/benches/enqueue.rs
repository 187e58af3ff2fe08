//! A business insert with one publish, against the same without.

use crate::{
    Settings,
    figure::{Figure, Progress},
    load::{self, Operation},
    server::Bench,
    service::{Done, Kind},
    store,
};
use onceward::{Db, outbox};
use std::{future::Future, pin::Pin, time::Duration};
use uuid::Uuid;

const ROUNDS: u32 = 4;
const NAME: &str = "enqueue";

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let bench = Bench::start(settings, false).await?;
    let instance = bench.instance()?;
    let round = Duration::from_secs(settings.seconds.unwrap_or(12)) / ROUNDS;
    let mut progress = Progress::new(format!("enqueue: {} clients", settings.clients()));
    let (mut rates, mut wal) = ([0.0; 4], [0.0; 4]);
    load::publish(instance.db(), 10).await?;
    // Turn and turn about, so that a change of the machine's mood meets all of them.
    for n in 1..=ROUNDS {
        for (i, publish) in
            [None, Some(Kind::Plain), Some(Kind::Ordered), Some(Kind::Deduplicated)].into_iter().enumerate()
        {
            let before = bench.wal_bytes().await?;
            let rate = load::rate(settings.clients(), round, async |_| {
                Ok(Box::new(Business { db: instance.db().clone(), publish }) as Box<dyn Operation>)
            })
            .await?;
            rates[i] += rate / f64::from(ROUNDS);
            wal[i] += (bench.wal_bytes().await? - before) / (rate * round.as_secs_f64()) / f64::from(ROUNDS);
            progress.at(format!("round {n} of {ROUNDS}"));
        }
    }
    instance.stop().await;
    bench.end().await?;
    Ok(vec![
        Figure::at_least(NAME, "with_publish", rates[1], "tx/s", rates[0], 0.70),
        Figure::at_least(NAME, "with_ordered_publish", rates[2], "tx/s", rates[0], 0.70),
        Figure::at_least(NAME, "with_deduplicated_publish", rates[3], "tx/s", rates[0], 0.70),
        Figure::at_most(NAME, "wal_of_a_publish", wal[3] - wal[0], "bytes", 600.0),
    ])
}

struct Business {
    db: Db,
    publish: Option<Kind>,
}

impl Operation for Business {
    fn once(&mut self) -> Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send + '_>> {
        Box::pin(async {
            let mut tx = self.db.begin(load::scope()).await?;
            tx.execute(store::INSERT_BUSINESS, &[&"bench", &Uuid::now_v7(), &"a business row of ordinary size"])
                .await?;
            if let Some(kind) = self.publish {
                outbox::publish(&mut tx, &Done::new(kind)).await?;
            }
            Ok(tx.commit().await?)
        })
    }
}
