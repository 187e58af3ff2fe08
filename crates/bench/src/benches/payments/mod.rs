//! The payment pipeline, from intake to `payment.posted.v1`, against the bare SQL writes of the same rows; and how long a
//! payment takes when a hundred a second come in.

mod bank;
mod bare;

use crate::{
    Settings,
    figure::{Figure, Progress},
    load,
    server::{Bench, Instance},
    store,
};
use bank::Bank;
use onceward::{NewMessage, outbox, transport::BusKind};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio_postgres::Client;
use uuid::Uuid;

const PAYMENTS: u64 = 20_000;
const LOANS: usize = 64;
const AMOUNT_MINOR: u64 = 100;
/// The specification's load, and how long 95 of 100 payments may take then.
const A_SECOND: u32 = 100;
const E2E_P95_MS: f64 = 300_000.0;
const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let bus = settings.bus.unwrap_or(BusKind::Postgres);
    let count = settings.messages.unwrap_or(PAYMENTS);
    let mut progress = Progress::new(format!("payments: {count} on {}", bus.name()));
    let lending = onceward_lending::service(onceward_lending::Settings::default());
    let bench = Bench::of(settings, bus, vec![lending]).await?;
    let owner = bench.owner().await?;
    let bank = Bank::open(&bench, LOANS).await?;

    owner.batch_execute(bare::TABLES).await?;
    let time = Duration::from_secs(settings.seconds.unwrap_or(8));
    progress.at("the bare writes");
    let before = bare::rate(&bench, settings.clients(), time / 2, &bank.loans).await?;

    progress.at("waiting payments");
    let mut instance = bench.instance()?;
    told(&instance, &bank, count).await?;
    progress.at("posting them");
    let started = Instant::now();
    instance.run_consumers();
    instance.run_relay();
    posted(&owner, count).await?;
    let rate = count as f64 / started.elapsed().as_secs_f64();
    progress.at(format!("{rate:.0} payments/s; the bare writes once more"));
    instance.stop().await;
    let limit = (before + bare::rate(&bench, settings.clients(), time / 2, &bank.loans).await?) / 2.0;

    progress.at(format!("{A_SECOND} payments a second over HTTP"));
    let p95_ms = bank.end_to_end_p95_ms(&bench, &owner, A_SECOND, time).await?;
    bank.close().await;
    bench.end().await?;
    Ok(vec![
        Figure::at_least("payments", bus.name(), rate, "payments/s", limit, 0.4),
        Figure::at_most("payments", "e2e_p95_at_100_a_second", p95_ms, "ms", E2E_P95_MS),
    ])
}

/// Payments that gateways told of by a queue and nobody has looked at yet.
async fn told(instance: &Instance, bank: &Bank, count: u64) -> anyhow::Result<()> {
    for first in (0..count).step_by(load::BATCH as usize) {
        let mut tx = instance.db().begin(load::scope()).await?;
        for number in first..count.min(first + load::BATCH) {
            let loan = bank.loans[number as usize % bank.loans.len()];
            let payload = json!({
                "provider": "mock",
                "payload": {"txn_id": Uuid::now_v7(), "loan_id": loan, "amount_minor": AMOUNT_MINOR.to_string()},
            });
            let message = NewMessage::new("payment.raw.v1", "payments.inbound:received.raw", payload);
            outbox::send(&mut tx, message.ordered_by(loan.to_string())).await?;
        }
        tx.commit().await?;
    }
    Ok(())
}

/// Waits until every payment is in the ledger and all that it publishes is on the bus.
async fn posted(owner: &Client, count: u64) -> anyhow::Result<()> {
    let until = Instant::now() + PATIENCE;
    let count = i64::try_from(count)?;
    loop {
        let posted: i64 = owner.query_one(store::PAYMENTS_POSTED, &[]).await?.get(0);
        if posted >= count && owner.query_one(store::OUTBOX_DEPTH, &[]).await?.get::<_, i64>(0) == 0 {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < until, "{posted} of {count} payments were posted in time");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
