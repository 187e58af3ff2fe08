//! Entries of one tenant's audit chain: every client waits for the same head.

use crate::{
    Settings,
    figure::{Figure, Progress},
    load::{self, BATCH, Operation},
    server::Bench,
    store,
};
use onceward::{
    Db,
    audit::{self, Entry},
};
use serde_json::json;
use std::{future::Future, pin::Pin, time::Duration};
use uuid::Uuid;

const ROUNDS: u32 = 4;
const NAME: &str = "audit";
/// Entries a second of one tenant.
const BAR: f64 = 1_000.0;

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let bench = Bench::start(settings, false).await?;
    let instance = bench.instance()?;
    let round = Duration::from_secs(settings.seconds.unwrap_or(12)) / ROUNDS;
    let mut progress = Progress::new(format!("audit: {} clients, one tenant", settings.clients));
    let mut rates = [0.0; 3];
    for n in 1..=ROUNDS {
        for (i, entries) in [0, 1, BATCH].into_iter().enumerate() {
            let rate = load::rate(settings.clients, round, async |_| {
                Ok(Box::new(Audited { db: instance.db().clone(), entries }) as Box<dyn Operation>)
            })
            .await?;
            rates[i] += rate / f64::from(ROUNDS);
            progress.at(format!("round {n} of {ROUNDS}"));
        }
    }
    instance.stop().await;
    bench.end().await?;
    Ok(vec![
        Figure::reaches(NAME, "one_entry_a_tx", rates[1], "entries/s", BAR),
        Figure::reaches(NAME, "hundred_entries_a_tx", rates[2] * BATCH as f64, "entries/s", BAR),
        Figure::shown(NAME, "tx_with_one_entry", rates[1], "tx/s", rates[0]),
    ])
}

/// A business insert that records so many entries.
struct Audited {
    db: Db,
    entries: u64,
}

impl Operation for Audited {
    fn once(&mut self) -> Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send + '_>> {
        Box::pin(async {
            let mut tx = self.db.begin(load::scope()).await?;
            let id = Uuid::now_v7();
            tx.execute(store::INSERT_BUSINESS, &[&"bench", &id, &"a business row of ordinary size"]).await?;
            for _ in 0..self.entries {
                let entry = Entry::new("payment_posted")
                    .object("payment", id)
                    .loan(id)
                    .old(json!({ "status": "received" }))
                    .new_value(json!({ "status": "posted", "amountMinor": "129900" }));
                audit::record(&mut tx, entry)?;
            }
            Ok(tx.commit().await?)
        })
    }
}
