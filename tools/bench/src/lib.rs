//! `onceward bench`: measures this machine, as ratios to a limit that is measured in the same run.
//!
//! Every bench starts a private PostgreSQL with durable commits (`fsync` on), unless a URL is given, and uses its own
//! database, which it drops at the end. The exit status is non-zero only if measuring failed; a missed bar is only
//! printed.

mod benches;
mod brokers;
mod figure;
mod load;
mod server;
mod service;
mod store;

use clap::ValueEnum;
use figure::{BenchReport, Figure};
use onceward::broker::BusKind;
use std::process::ExitCode;

/// The benches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchName {
    /// Business transactions with one publish, relative to the same without
    Enqueue,
    /// Draining a queue, alone and with producers running, relative to one-row inserts
    Queue,
    /// Draining the outbox to a broker, relative to the same client publishing from memory
    Relay,
    /// Time from commit to handler on an idle system
    Latency,
    /// Rate with a million messages waiting, relative to ten thousand
    Backlog,
    /// Rate while another session holds an old snapshot, relative to without
    Pinned,
    /// Rate of entries in one tenant's audit chain
    Audit,
    /// Payments from intake to `payment.posted.v1`, relative to the bare SQL writes of the same rows
    Payments,
    /// Mails from the queue to an SMTP server on loopback, relative to the bare client
    Mail,
    /// Page submits over HTTP that compete for one nearly full quota bucket, with the relay running
    Quota,
    /// All benches, one after the other
    All,
}

/// The arguments of `bench`.
#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    /// The bench to run
    #[arg(value_enum)]
    name: BenchName,
    /// Print one JSON object per figure
    #[arg(long)]
    json: bool,
    /// Duration of a timed phase; the default depends on the bench
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// Number of preloaded messages; the default depends on the bench
    #[arg(long, value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    messages: Option<u64>,
    /// Concurrent clients; the default is 8, and 64 for `quota`
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=64))]
    clients: Option<u16>,
    /// The message bus. Defaults: PostgreSQL for `queue` and `payments`, RabbitMQ and Kafka for `relay`, Kafka for
    /// `quota`
    #[arg(long, value_enum)]
    bus: Option<BusName>,
    /// URL of a broker to use with --bus instead of a private one
    #[arg(long, env = "ONCEWARD_BENCH_BROKER_URL", requires = "bus")]
    broker_url: Option<String>,
    /// URL of a PostgreSQL to use instead of a private one; its user must be allowed to create databases
    #[arg(long, env = "ONCEWARD_BENCH_DATABASE_URL")]
    database_url: Option<String>,
}

/// The name of a bus on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BusName {
    /// PostgreSQL itself
    Postgres,
    /// RabbitMQ
    Rabbitmq,
    /// Kafka
    Kafka,
    /// Redis
    Redis,
}

impl BusName {
    pub(crate) fn kind(self) -> BusKind {
        match self {
            Self::Postgres => BusKind::Postgres,
            Self::Rabbitmq => BusKind::RabbitMq,
            Self::Kafka => BusKind::Kafka,
            Self::Redis => BusKind::Redis,
        }
    }
}

/// The default number of concurrent clients.
const DEFAULT_CLIENTS: usize = 8;

/// The settings of one run.
#[derive(Clone, Debug)]
pub(crate) struct BenchSettings {
    pub seconds: Option<u64>,
    pub messages: Option<u64>,
    clients: Option<usize>,
    pub database_url: Option<String>,
    pub bus: Option<BusKind>,
    pub broker_url: Option<String>,
}

impl BenchSettings {
    /// Returns the number of concurrent clients.
    pub(crate) fn clients(&self) -> usize {
        self.clients_or(DEFAULT_CLIENTS)
    }

    /// Returns the number of concurrent clients for a bench with its own default.
    pub(crate) fn clients_or(&self, default: usize) -> usize {
        self.clients.unwrap_or(default)
    }
}

/// Runs the benches and prints the figures. The exit code is 0 if measuring succeeded, whatever the figures are.
pub fn main(args: BenchArgs) -> ExitCode {
    let settings = BenchSettings {
        seconds: args.seconds,
        messages: args.messages,
        clients: args.clients.map(usize::from),
        database_url: args.database_url,
        bus: args.bus.map(BusName::kind),
        broker_url: args.broker_url,
    };
    onceward::install_crypto_provider();
    let measured = tokio::runtime::Runtime::new()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(measure(args.name, &settings)));
    match measured {
        Ok(report) => {
            report.print(args.json);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: measuring failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(name: BenchName, settings: &BenchSettings) -> anyhow::Result<BenchReport> {
    let mut figures: Vec<Figure> = Vec::new();
    let selected = |bench: BenchName| name == bench || name == BenchName::All;
    if selected(BenchName::Enqueue) {
        figures.extend(benches::enqueue::run(settings).await?);
    }
    if selected(BenchName::Queue) {
        figures.extend(benches::queue::run(settings).await?);
    }
    if selected(BenchName::Relay) {
        figures.extend(benches::relay::run(settings).await?);
    }
    if selected(BenchName::Latency) {
        figures.extend(benches::latency::run(settings).await?);
    }
    if selected(BenchName::Backlog) {
        figures.extend(benches::backlog::run(settings).await?);
    }
    if selected(BenchName::Pinned) {
        figures.extend(benches::pinned::run(settings).await?);
    }
    if selected(BenchName::Audit) {
        figures.extend(benches::audit::run(settings).await?);
    }
    if selected(BenchName::Payments) {
        figures.extend(benches::payments::run(settings).await?);
    }
    if selected(BenchName::Mail) {
        figures.extend(benches::mail::run(settings).await?);
    }
    if selected(BenchName::Quota) {
        figures.extend(benches::quota::run(settings).await?);
    }
    Ok(BenchReport(figures))
}
