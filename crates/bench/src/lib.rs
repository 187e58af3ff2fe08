//! `onceward bench`: what this machine does, as ratios to a limit taken in the same run.
//!
//! Every bench starts a private PostgreSQL with durable commits (`fsync` on), unless a URL is given,
//! and works in a database of its own that is dropped at the end. It exits non-zero only when it
//! could not measure; a missed bar is printed, not punished.

mod benches;
mod brokers;
mod figure;
mod load;
mod server;
mod service;
mod store;

use clap::ValueEnum;
use figure::{Figure, Report};
use onceward::transport::BusKind;
use std::process::ExitCode;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// Business transactions with one publish, against the same without
    Enqueue,
    /// Messages drained, alone and with producers, against one-row inserts
    Queue,
    /// The outbox drained to a broker, against the same client publishing from memory
    Relay,
    /// From commit to handler on an idle system
    Latency,
    /// Rate with a million waiting, against ten thousand
    Backlog,
    /// Rate while another session holds an old snapshot, against without
    Pinned,
    /// Entries of one tenant's audit chain
    Audit,
    /// Payments from intake to `payment.posted.v1`, against the bare SQL writes of the same rows
    Payments,
    /// Page submits over HTTP that all want a place in one nearly full bucket, with the relay running
    Quota,
    /// All of them, one after the other
    All,
}

/// Arguments of `bench`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to measure
    #[arg(value_enum)]
    name: Name,
    /// Print one JSON object a figure
    #[arg(long)]
    json: bool,
    /// How long a timed phase runs; each bench has its own default
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// How many messages are preloaded; each bench has its own default
    #[arg(long, value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    messages: Option<u64>,
    /// Concurrent clients; 8 if not given, and 64 respondents for `quota`
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=64))]
    clients: Option<u16>,
    /// The bus that `queue` and `payments` measure (PostgreSQL without it), that `relay` carries to (RabbitMQ and Kafka
    /// without it), and that `quota` runs on (Kafka without it)
    #[arg(long, value_enum)]
    bus: Option<BusName>,
    /// A broker to measure with --bus instead of a private one
    #[arg(long, env = "ONCEWARD_BENCH_BROKER_URL", requires = "bus")]
    broker_url: Option<String>,
    /// A PostgreSQL to measure instead of a private one; its user must be allowed to create databases
    #[arg(long, env = "ONCEWARD_BENCH_DATABASE_URL")]
    database_url: Option<String>,
}

/// A bus, as the command line names it.
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

/// Concurrent clients, unless others are given.
const CLIENTS: usize = 8;

/// Sizes and times of one run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub seconds: Option<u64>,
    pub messages: Option<u64>,
    clients: Option<usize>,
    pub database_url: Option<String>,
    pub bus: Option<BusKind>,
    pub broker_url: Option<String>,
}

impl Settings {
    /// Concurrent clients.
    pub(crate) fn clients(&self) -> usize {
        self.clients_or(CLIENTS)
    }

    /// The same, where another number is usual.
    pub(crate) fn clients_or(&self, usual: usize) -> usize {
        self.clients.unwrap_or(usual)
    }
}

/// Measures and prints. Exit code 0: measured, whatever came out.
pub fn main(args: Args) -> ExitCode {
    let settings = Settings {
        seconds: args.seconds,
        messages: args.messages,
        clients: args.clients.map(usize::from),
        database_url: args.database_url,
        bus: args.bus.map(BusName::kind),
        broker_url: args.broker_url,
    };
    onceward::cli::install_crypto();
    let measured = tokio::runtime::Runtime::new()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(measure(args.name, &settings)));
    match measured {
        Ok(report) => {
            report.print(args.json);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: could not measure: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(name: Name, settings: &Settings) -> anyhow::Result<Report> {
    let mut figures: Vec<Figure> = Vec::new();
    let wanted = |one: Name| name == one || name == Name::All;
    if wanted(Name::Enqueue) {
        figures.extend(benches::enqueue::run(settings).await?);
    }
    if wanted(Name::Queue) {
        figures.extend(benches::queue::run(settings).await?);
    }
    if wanted(Name::Relay) {
        figures.extend(benches::relay::run(settings).await?);
    }
    if wanted(Name::Latency) {
        figures.extend(benches::latency::run(settings).await?);
    }
    if wanted(Name::Backlog) {
        figures.extend(benches::backlog::run(settings).await?);
    }
    if wanted(Name::Pinned) {
        figures.extend(benches::pinned::run(settings).await?);
    }
    if wanted(Name::Audit) {
        figures.extend(benches::audit::run(settings).await?);
    }
    if wanted(Name::Payments) {
        figures.extend(benches::payments::run(settings).await?);
    }
    if wanted(Name::Quota) {
        figures.extend(benches::quota::run(settings).await?);
    }
    Ok(Report(figures))
}
