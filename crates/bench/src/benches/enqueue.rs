//! A business insert with one publish, against the same without.

use crate::{
    Settings,
    figure::{Figure, Progress},
    load::{self, Operation},
    server::Bench,
    service::Done,
    store,
};
use onceward::{Db, outbox};
use std::{future::Future, pin::Pin, time::Duration};
use uuid::Uuid;

const ROUNDS: u32 = 4;
const NAME: &str = "enqueue";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Publish {
    No,
    Plain,
    Keyed,
}

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let bench = Bench::start(settings, false).await?;
    let instance = bench.instance()?;
    let round = Duration::from_secs(settings.seconds.unwrap_or(16)) / ROUNDS;
    let mut progress = Progress::new(format!("enqueue: {} clients", settings.clients));
    let (mut rates, mut wal) = ([0.0; 3], [0.0; 3]);
    load::publish(instance.db(), 10).await?;
    // Turn and turn about, so that a change of the machine's mood meets all of them.
    for n in 1..=ROUNDS {
        for (i, publish) in [Publish::No, Publish::Plain, Publish::Keyed].into_iter().enumerate() {
            let before = bench.wal_bytes().await?;
            let rate = load::rate(settings.clients, round, async |_| {
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
        Figure::at_least(NAME, "with_keyed_publish", rates[2], "tx/s", rates[0], 0.70),
        Figure::at_most(NAME, "wal_of_a_publish", wal[1] - wal[0], "bytes", 600.0),
    ])
}

struct Business {
    db: Db,
    publish: Publish,
}

impl Operation for Business {
    fn once(&mut self) -> Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send + '_>> {
        Box::pin(async {
            let mut tx = self.db.begin(load::scope()).await?;
            tx.execute(store::INSERT_BUSINESS, &[&"bench", &Uuid::now_v7(), &"a business row of ordinary size"])
                .await?;
            if self.publish != Publish::No {
                outbox::publish(&mut tx, &Done::new(self.publish == Publish::Keyed)).await?;
            }
            Ok(tx.commit().await?)
        })
    }
}
