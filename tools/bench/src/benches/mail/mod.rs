//! Mails from the queue to an SMTP server on loopback, relative to the bare client with the same mail and as many
//! connections, once from memory and once with the two commits that sending at most once needs; and the time from request to
//! acceptance at 100 mails per second.

mod bare_client;
mod smtp_sink;

use crate::{
    BenchSettings,
    figure::{Figure, ProgressReporter},
    load,
    server::{Bench, PlatformInstance},
    store,
};
use bare_client::BareClient;
use onceward::{NewMessage, broker::BusKind, outbox};
use onceward_crm::Settings;
use onceward_mail::template::ready_templates;
use serde_json::json;
use smtp_sink::SmtpSink;
use std::time::{Duration, Instant};
use tokio_postgres::Client;
use uuid::Uuid;

const MAILS: u64 = 5_000;
/// The load of the latency measurement, and the bar for its 99th percentile.
const MAILS_PER_SECOND: u64 = 100;
const P99_MS: f64 = 1_000.0;
/// Mails that are prepared or recorded while others are being sent.
const IN_FLIGHT_PER_CONNECTION: usize = 4;
const READY_TEMPLATE: &str = "lending/welcome";
const TEMPLATE: &str = "welcome";
const TIMEOUT: Duration = Duration::from_secs(600);

pub(crate) async fn run(settings: &BenchSettings) -> anyhow::Result<Vec<Figure>> {
    let bus = settings.bus.unwrap_or(BusKind::Postgres);
    let count = settings.messages.unwrap_or(MAILS);
    let mut progress = ProgressReporter::new(format!("mail: {count} on {}", bus.name()));
    let sink = SmtpSink::start().await?;
    let folder = std::env::temp_dir().join(format!("onceward-bench-mail-{}", Uuid::now_v7().simple()));
    let crm = Settings {
        providers: "smtp".to_owned(),
        smtp_host: "127.0.0.1".to_owned(),
        smtp_port: sink.port,
        smtp_tls: "none".to_owned(),
        smtp_connections: settings.clients(),
        concurrency: settings.clients() * IN_FLIGHT_PER_CONNECTION,
        objects: folder.display().to_string(),
        sender_address: "servicing@lender.example".to_owned(),
        ..Settings::default().or_derived_from("a secret of the bench that is long enough")
    };
    let bench = Bench::with_services(settings, bus, vec![onceward_crm::service(crm)]).await?;
    let owner = bench.owner().await?;
    let mut instance = bench.instance()?;
    insert_template(&instance).await?;

    progress.report("requesting the mails");
    request_mails(&instance, count).await?;
    progress.report("sending the mails");
    let started = Instant::now();
    instance.run_consumers();
    instance.run_relay();
    wait_until_sent(&owner, count).await?;
    let rate = count as f64 / started.elapsed().as_secs_f64();
    anyhow::ensure!(sink.received() == count, "the server received {} of {count} mails", sink.received());

    progress.report(format!("{rate:.0} mails/s; measuring the bare client"));
    let client = BareClient::new(&sink, settings.clients(), message_of_equal_size(&owner).await?)?;
    let limit = client.rate_from_memory(count).await?;
    progress.report(format!("{limit:.0} mails/s; the same with a commit before and after each mail"));
    let committing_limit = client.rate_with_commits(&bench, count).await?;

    let time = Duration::from_secs(settings.seconds.unwrap_or(8));
    progress.report(format!("{committing_limit:.0} mails/s; {MAILS_PER_SECOND} mails per second"));
    let p99_ms = p99_at_a_steady_rate(&instance, &owner, count, time).await?;
    instance.stop().await;
    bench.shut_down().await?;
    let _ = std::fs::remove_dir_all(folder);
    Ok(vec![
        Figure::at_least("mail", bus.name(), rate, "mails/s", limit, 0.7),
        Figure::at_least("mail", "with_commits", rate, "mails/s", committing_limit, 0.7),
        Figure::at_most("mail", "p99_at_100_a_second", p99_ms, "ms", P99_MS),
    ])
}

/// Saves a ready template as the tenant's own.
async fn insert_template(instance: &PlatformInstance) -> anyhow::Result<()> {
    let ready = ready_templates().into_iter().find(|template| template.key == READY_TEMPLATE);
    let ready = ready.ok_or_else(|| anyhow::anyhow!("there is no ready template {READY_TEMPLATE}"))?;
    let tx = instance.db().begin(load::scope()).await?;
    let (tenant, source) =
        (load::scope().tenant.map(|tenant| tenant.to_string()), serde_json::to_value(&ready.source)?);
    tx.execute(store::INSERT_TEMPLATE, &[&tenant, &TEMPLATE]).await?;
    tx.execute(store::INSERT_TEMPLATE_VERSION, &[&tenant, &TEMPLATE, &source, &"0".repeat(64)]).await?;
    tx.commit().await?;
    Ok(())
}

/// Publishes requests, as another service would.
async fn request_mails(instance: &PlatformInstance, count: u64) -> anyhow::Result<()> {
    let template = ready_templates().into_iter().find(|template| template.key == READY_TEMPLATE);
    let variables = template.map(|ready| {
        onceward_mail::template::CheckedTemplate::check(ready.source).map(|checked| checked.sample_variables())
    });
    let variables = variables.and_then(Result::ok).unwrap_or_default();
    for first in (0..count).step_by(load::BATCH as usize) {
        let mut tx = instance.db().begin(load::scope()).await?;
        for number in first..count.min(first + load::BATCH) {
            let payload = json!({
                "email_id": Uuid::now_v7(),
                "template_id": TEMPLATE,
                "subject": "",
                "to": [format!("borrower-{number}@example.org")],
                "variables": variables,
                "correlation_id": Uuid::now_v7(),
            });
            let message =
                NewMessage::new("crm.email.requested.v1", "notifications.topic:crm.email.requested.v1", payload);
            outbox::send(&mut tx, message).await?;
        }
        tx.commit().await?;
    }
    Ok(())
}

async fn wait_until_sent(owner: &Client, count: u64) -> anyhow::Result<()> {
    let (deadline, count) = (Instant::now() + TIMEOUT, i64::try_from(count)?);
    loop {
        let sent: i64 = owner.query_one(store::MAILS_SENT, &[]).await?.get(0);
        if sent >= count {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < deadline, "only {sent} of {count} mails were sent within {TIMEOUT:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns bytes of the size of the mails that were sent.
async fn message_of_equal_size(owner: &Client) -> anyhow::Result<Vec<u8>> {
    let bytes: i32 = owner.query_one(store::MAIL_BYTES, &[]).await?.get(0);
    let line = b"The same number of bytes as a mail of this template, in lines of the usual length.\r\n";
    let mut message = b"Subject: bare client\r\n\r\n".to_vec();
    while message.len() < usize::try_from(bytes)? {
        message.extend_from_slice(line);
    }
    Ok(message)
}

/// Requests mails at a steady rate. Returns the 99th percentile of the time from request to acceptance.
async fn p99_at_a_steady_rate(
    instance: &PlatformInstance,
    owner: &Client,
    sent_before: u64,
    time: Duration,
) -> anyhow::Result<f64> {
    let count = MAILS_PER_SECOND * time.as_secs().max(1);
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / u32::try_from(MAILS_PER_SECOND)?);
    for _ in 0..count {
        ticks.tick().await;
        request_mails(instance, 1).await?;
    }
    wait_until_sent(owner, sent_before + count).await?;
    Ok(owner.query_one(store::MAIL_P99_MS, &[&i64::try_from(count)?]).await?.get(0))
}
