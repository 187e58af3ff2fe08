//! The command `onceward adopt plan|run|status|verify`.

use crate::{AdoptionOptions, LegacyMapping, LendingImport, RateUnit, StepState, connection, plan, run, store, verify};
use anyhow::Context;
use onceward::{DbConfig, Section, TenantId};
use onceward_cli::CommonArgs;
use serde_json::json;
use std::{process::ExitCode, time::Duration};
use tokio_postgres::Client;

/// The number of findings read per query.
const PAGE_SIZE: i64 = 500;

/// Migrate a legacy lending database while the old program continues to run
///
/// Uses the database in DATABASE_URL. Take a backup first: `plan` changes nothing; `run` adds columns, keys and
/// triggers and renames a table.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Show the steps and their state. Changes nothing
    Plan {
        /// What is adopted
        #[command(flatten)]
        mapping: MappingArgs,
        /// Also show the SQL statements
        #[arg(long)]
        sql: bool,
    },
    /// Run the steps that are not done yet. Can be stopped at any time and run again
    Run(RunArgs),
    /// Show the progress and what could not be migrated
    Status {
        /// List every finding, not only the counts
        #[arg(long)]
        findings: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Compare counts, sums and every row. Exit status: 0 if everything was migrated, 1 if anything differs or is
    /// listed
    Verify {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// What is adopted.
#[derive(Debug, clap::Args)]
pub struct MappingArgs {
    /// The schema of the legacy tables
    #[arg(long, default_value = "public")]
    schema: String,
    /// The tenant that will own the rows
    #[arg(long, default_value = "default")]
    tenant: TenantId,
    /// The exchange for messages of the legacy outbox. Stop its old publisher first
    #[arg(long, default_value = "ls.events")]
    exchange: String,
    /// Leave the legacy outbox unchanged
    #[arg(long)]
    without_outbox: bool,
}

/// The arguments of `run`.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    mapping: MappingArgs,
    /// Rows per transaction
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(i32).range(1..=10_000))]
    batch: i32,
    /// Pause between transactions
    #[arg(long, default_value_t = 20, value_name = "MILLISECONDS")]
    pause_ms: u64,
    /// Also add foreign keys where the legacy schema has none
    #[arg(long)]
    enforce: bool,
    /// Import borrowers, and active loans with the terms of this product, into lending
    #[arg(long, requires = "rate_unit")]
    product: Option<String>,
    /// The unit of legacy rates: what 7.5 means
    #[arg(long, value_enum, requires = "product")]
    rate_unit: Option<RateUnit>,
}

impl MappingArgs {
    fn mapping(&self) -> anyhow::Result<LegacyMapping> {
        let exchange = (!self.without_outbox).then_some(self.exchange.as_str());
        Ok(LegacyMapping::new(&self.schema, self.tenant.clone(), exchange)?)
    }
}

/// Runs one command. `sections` are the sections of the services that the settings file may contain.
pub fn main(common: &CommonArgs, sections: &[Section], command: &Command) -> ExitCode {
    onceward::install_crypto_provider();
    let result = || {
        let config = common.load(sections)?;
        onceward_cli::database(&config)?;
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(dispatch(&config.db(), command))
    };
    result().unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

async fn dispatch(config: &DbConfig, command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Plan { mapping, sql } => show_plan(config, &mapping.mapping()?, *sql).await,
        Command::Run(args) => do_run(config, args).await,
        Command::Status { findings, json } => show_status(config, *findings, *json).await,
        Command::Verify { json } => do_verify(config, *json).await,
    }
}

async fn show_plan(config: &DbConfig, mapping: &LegacyMapping, sql: bool) -> anyhow::Result<ExitCode> {
    for step in plan(config, mapping).await? {
        let state = match step.state {
            StepState::Done => "done".to_owned(),
            StepState::Started { rows } => format!("started, {rows} rows"),
            StepState::Pending => "pending".to_owned(),
        };
        println!("{}: {state}\n    {}", step.name, step.purpose);
        if let Some(statements) = step.sql.filter(|_| sql) {
            println!("{}", statements.lines().map(|line| format!("        {line}\n")).collect::<String>());
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn do_run(config: &DbConfig, args: &RunArgs) -> anyhow::Result<ExitCode> {
    let import =
        args.product.clone().zip(args.rate_unit).map(|(product, rate_unit)| LendingImport { product, rate_unit });
    let pause = Duration::from_millis(args.pause_ms);
    let options = AdoptionOptions { batch: args.batch, pause, enforce: args.enforce, import };
    let findings = run(config, &args.mapping.mapping()?, &options, |line| eprintln!("{line}")).await?;
    println!(
        "done; {findings} findings (list them with `onceward adopt status --findings`). Next: `onceward adopt verify`"
    );
    Ok(ExitCode::SUCCESS)
}

async fn show_status(config: &DbConfig, list: bool, as_json: bool) -> anyhow::Result<ExitCode> {
    let client = connection::connect(config).await?;
    let mapping = LegacyMapping::load(&client)
        .await?
        .context("no adoption was started on this database; start one with `onceward adopt run`")?;
    let planned = plan(config, &mapping).await?;
    let counts = store::findings_by_reason(&client).await?;
    if as_json {
        println!(
            "{}",
            json!({ "schema": mapping.schema, "tenant": mapping.tenant, "steps": planned, "findings": counts })
        );
    } else {
        let done = planned.iter().filter(|step| step.state == StepState::Done).count();
        println!("{done} of {} steps done", planned.len());
        planned
            .iter()
            .filter(|step| step.state != StepState::Done)
            .for_each(|step| println!("not done: {}", step.name));
        counts.iter().for_each(|(table, column, reason, count)| println!("{count} × {table}.{column}: {reason}"));
    }
    if list {
        list_findings(&client, as_json).await?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn list_findings(client: &Client, as_json: bool) -> anyhow::Result<()> {
    let mut last = store::AdoptionFinding { id: i64::MIN, ..store::AdoptionFinding::default() };
    loop {
        let page = store::findings(client, &last, PAGE_SIZE).await?;
        for finding in &page {
            let store::AdoptionFinding { table, id, column, value, reason } = finding;
            match as_json {
                true => println!("{}", json!(finding)),
                false => println!("{table} {id}: {column} {}: {reason}", value.as_deref().unwrap_or("(none)")),
            }
        }
        match page.into_iter().next_back() {
            Some(end) => last = end,
            None => return Ok(()),
        }
    }
}

async fn do_verify(config: &DbConfig, as_json: bool) -> anyhow::Result<ExitCode> {
    let report = verify(config).await?;
    if as_json {
        println!("{}", json!(report));
    } else {
        report.summary.iter().for_each(|line| println!("{line}"));
        for difference in &report.differences {
            let id = difference.id.map_or_else(String::new, |id| format!(" {id}"));
            println!("DIFFERENCE {}{id}: {}", difference.table, difference.description);
        }
        println!("{} differences, {} findings", report.differences.len(), report.findings);
    }
    Ok(if report.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
