//! The payment pipeline from intake to `payment.posted.v1`, relative to the bare SQL writes of the same rows; and the
//! latency of a payment at 100 payments per second.

mod bare_writes;
mod lending_server;

use crate::{
    BenchSettings,
    figure::{Figure, ProgressReporter},
    load,
    server::{Bench, PlatformInstance},
    store,
};
use lending_server::LendingServer;
use onceward::{NewMessage, broker::BusKind, outbox};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio_postgres::Client;
use uuid::Uuid;

const PAYMENTS: u64 = 20_000;
const LOANS: usize = 64;
const AMOUNT_MINOR: u64 = 100;
/// The load of the latency measurement, and the bar for its 95th percentile.
const PAYMENTS_PER_SECOND: u32 = 100;
const E2E_P95_MS: f64 = 300_000.0;
const TIMEOUT: Duration = Duration::from_secs(600);

pub(crate) async fn run(settings: &BenchSettings) -> anyhow::Result<Vec<Figure>> {
    let bus = settings.bus.unwrap_or(BusKind::Postgres);
    let count = settings.messages.unwrap_or(PAYMENTS);
    let mut progress = ProgressReporter::new(format!("payments: {count} on {}", bus.name()));
    let lending = onceward_lending::service(onceward_lending::Settings {
        mock_provider: true,
        ..onceward_lending::Settings::default()
    });
    let bench = Bench::with_services(settings, bus, vec![lending]).await?;
    let owner = bench.owner().await?;
    let server = LendingServer::start(&bench, LOANS).await?;

    owner.batch_execute(bare_writes::TABLES).await?;
    let time = Duration::from_secs(settings.seconds.unwrap_or(8));
    progress.report("measuring the bare writes");
    let before = bare_writes::rate(&bench, settings.clients(), time / 2, &server.loans).await?;

    progress.report("publishing the payments");
    let mut instance = bench.instance()?;
    publish_raw_payments(&instance, &server, count).await?;
    progress.report("posting the payments");
    let started = Instant::now();
    instance.run_consumers();
    instance.run_relay();
    wait_until_posted(&owner, count).await?;
    let rate = count as f64 / started.elapsed().as_secs_f64();
    progress.report(format!("{rate:.0} payments/s; measuring the bare writes again"));
    instance.stop().await;
    let limit = (before + bare_writes::rate(&bench, settings.clients(), time / 2, &server.loans).await?) / 2.0;

    progress.report(format!("{PAYMENTS_PER_SECOND} payments per second over HTTP"));
    let p95_ms = server.end_to_end_p95_ms(&bench, &owner, PAYMENTS_PER_SECOND, time).await?;
    server.stop().await;
    bench.shut_down().await?;
    Ok(vec![
        Figure::at_least("payments", bus.name(), rate, "payments/s", limit, 0.4),
        Figure::at_most("payments", "e2e_p95_at_100_a_second", p95_ms, "ms", E2E_P95_MS),
    ])
}

/// Publishes raw payments, as a gateway would, to the intake queue.
async fn publish_raw_payments(instance: &PlatformInstance, server: &LendingServer, count: u64) -> anyhow::Result<()> {
    for first in (0..count).step_by(load::BATCH as usize) {
        let mut tx = instance.db().begin(load::scope()).await?;
        for number in first..count.min(first + load::BATCH) {
            let loan = server.loans[number as usize % server.loans.len()];
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

/// Waits until every payment is in the ledger and the outbox is empty.
async fn wait_until_posted(owner: &Client, count: u64) -> anyhow::Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    let count = i64::try_from(count)?;
    loop {
        let posted: i64 = owner.query_one(store::PAYMENTS_POSTED, &[]).await?.get(0);
        if posted >= count && owner.query_one(store::OUTBOX_DEPTH, &[]).await?.get::<_, i64>(0) == 0 {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < deadline, "only {posted} of {count} payments were posted within {TIMEOUT:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
