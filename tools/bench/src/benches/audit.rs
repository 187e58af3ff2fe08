//! The rate of entries in one tenant's audit chain. Every commit waits for the previous one, so the limit is the commit
//! rate of a single client.

use crate::{
    BenchSettings,
    figure::{Figure, ProgressReporter},
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
/// Entries per second of one tenant.
const BAR: f64 = 1_000.0;

pub(crate) async fn run(settings: &BenchSettings) -> anyhow::Result<Vec<Figure>> {
    let bench = Bench::start(settings, false).await?;
    let instance = bench.instance()?;
    let round = Duration::from_secs(settings.seconds.unwrap_or(12)) / ROUNDS;
    let mut progress = ProgressReporter::new(format!("audit: {} clients, one tenant", settings.clients()));
    let (mut alone, mut rates) = (0.0, [0.0; 2]);
    for n in 1..=ROUNDS {
        alone += load::one_row_inserts(&bench, 1, round).await? / f64::from(ROUNDS);
        for (rate, entries) in rates.iter_mut().zip([1, BATCH]) {
            let commits = load::rate(settings.clients(), round, async |_| {
                Ok(Box::new(AuditedInsert { db: instance.db().clone(), entries }) as Box<dyn Operation>)
            });
            *rate += commits.await? * entries as f64 / f64::from(ROUNDS);
        }
        progress.report(format!("round {n} of {ROUNDS}"));
    }
    instance.stop().await;
    bench.shut_down().await?;
    Ok(vec![
        Figure::at_least_absolute(NAME, "one_entry_a_tx", rates[0], "entries/s", BAR),
        Figure::at_least_absolute(NAME, "hundred_entries_a_tx", rates[1], "entries/s", BAR),
        Figure::without_bar(NAME, "one_entry_to_lone_commits", rates[0], "tx/s", alone),
    ])
}

/// A business insert that records `entries` audit entries.
struct AuditedInsert {
    db: Db,
    entries: u64,
}

impl Operation for AuditedInsert {
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
