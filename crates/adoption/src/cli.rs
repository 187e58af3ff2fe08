//! `onceward adopt plan|run|status|verify`.

use crate::{Bring, Options, RateUnit, Shape, State, legacy, plan, run, store, verify};
use anyhow::Context;
use onceward::{Config, DbConfig, Section, TenantId, cli::Common};
use serde_json::json;
use std::{process::ExitCode, time::Duration};
use tokio_postgres::Client;

/// So many findings are read at a time.
const PAGE: i64 = 500;

/// Bring a legacy lending database over, while the old program goes on
///
/// The database is the one that DATABASE_URL names. Take a backup first: `plan` changes nothing, `run` adds and renames.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Show the steps, and which are done. Changes nothing
    Plan {
        /// What is adopted, and as what
        #[command(flatten)]
        shape: ShapeArgs,
        /// Show the statements too
        #[arg(long)]
        sql: bool,
    },
    /// Do what is not done yet. It may be stopped at any time and run again
    Run(RunArgs),
    /// Show how far it is, and what could not be brought over
    Status {
        /// Name every finding instead of counting them
        #[arg(long)]
        findings: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Compare counts, sums and every row. Ends with 0 when all is brought over, with 1 when something differs or is listed
    Verify {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// What is adopted, and as what.
#[derive(Debug, clap::Args)]
pub struct ShapeArgs {
    /// The schema with the legacy tables
    #[arg(long, default_value = "public")]
    schema: String,
    /// The tenant whose rows they become
    #[arg(long, default_value = "default")]
    tenant: TenantId,
    /// Where messages of the legacy outbox go; its publisher has to be stopped
    #[arg(long, default_value = "ls.events")]
    exchange: String,
    /// Leave the legacy outbox alone
    #[arg(long)]
    without_outbox: bool,
}

/// How `run` goes about it.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    shape: ShapeArgs,
    /// Rows in one transaction
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(i32).range(1..=10_000))]
    batch: i32,
    /// Pause between two transactions
    #[arg(long, default_value_t = 20, value_name = "MILLISECONDS")]
    pause_ms: u64,
    /// Add foreign keys also where the old program had none
    #[arg(long)]
    enforce: bool,
    /// Take borrowers, and active loans with the terms of this product, over to lending
    #[arg(long, requires = "rate_unit")]
    product: Option<String>,
    /// What a rate of 7.5 means
    #[arg(long, value_enum, requires = "product")]
    rate_unit: Option<RateUnit>,
}

impl ShapeArgs {
    fn shape(&self) -> anyhow::Result<Shape> {
        let exchange = (!self.without_outbox).then_some(self.exchange.as_str());
        Ok(Shape::new(&self.schema, self.tenant.clone(), exchange)?)
    }
}

/// Runs one command. `sections` are those of the services, which the settings file may have.
pub fn main(common: &Common, sections: &[Section], command: &Command) -> ExitCode {
    onceward::cli::install_crypto();
    let done = || {
        let config = Config::load(common.config.as_deref(), sections)?;
        if config.database.url.is_empty() {
            anyhow::bail!("no database is named; set DATABASE_URL");
        }
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(dispatch(&config.db(), command))
    };
    done().unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

async fn dispatch(config: &DbConfig, command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Plan { shape, sql } => show_plan(config, &shape.shape()?, *sql).await,
        Command::Run(args) => do_run(config, args).await,
        Command::Status { findings, json } => show_status(config, *findings, *json).await,
        Command::Verify { json } => do_verify(config, *json).await,
    }
}

async fn show_plan(config: &DbConfig, shape: &Shape, sql: bool) -> anyhow::Result<ExitCode> {
    for step in plan(config, shape).await? {
        let state = match step.state {
            State::Done => "done".to_owned(),
            State::Begun { rows } => format!("begun, {rows} rows"),
            State::ToDo => "to do".to_owned(),
        };
        println!("{}: {state}\n    {}", step.name, step.why);
        if let Some(statements) = step.sql.filter(|_| sql) {
            println!("{}", statements.lines().map(|line| format!("        {line}\n")).collect::<String>());
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn do_run(config: &DbConfig, args: &RunArgs) -> anyhow::Result<ExitCode> {
    let bring = args.product.clone().zip(args.rate_unit).map(|(product, rate_unit)| Bring { product, rate_unit });
    let pause = Duration::from_millis(args.pause_ms);
    let options = Options { batch: args.batch, pause, enforce: args.enforce, bring };
    let findings = run(config, &args.shape.shape()?, &options, |line| eprintln!("{line}")).await?;
    println!(
        "done; {findings} findings: `onceward adopt status --findings` names them, `onceward adopt verify` compares"
    );
    Ok(ExitCode::SUCCESS)
}

async fn show_status(config: &DbConfig, named: bool, as_json: bool) -> anyhow::Result<ExitCode> {
    let client = legacy::connect(config).await?;
    let shape = Shape::kept(&client).await?.context("nothing is adopted here yet")?;
    let planned = plan(config, &shape).await?;
    let counts = store::findings_by_reason(&client).await?;
    if as_json {
        println!("{}", json!({ "schema": shape.schema, "tenant": shape.tenant, "steps": planned, "findings": counts }));
    } else {
        let done = planned.iter().filter(|step| step.state == State::Done).count();
        println!("{done} of {} steps are done", planned.len());
        planned.iter().filter(|step| step.state != State::Done).for_each(|step| println!("not yet: {}", step.name));
        counts.iter().for_each(|(table, column, reason, count)| println!("{count} × {table}.{column}: {reason}"));
    }
    if named {
        list_findings(&client, as_json).await?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn list_findings(client: &Client, as_json: bool) -> anyhow::Result<()> {
    let mut last = store::Finding { id: i64::MIN, ..store::Finding::default() };
    loop {
        let page = store::findings(client, &last, PAGE).await?;
        for finding in &page {
            let store::Finding { table, id, column, value, reason } = finding;
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
    let verified = verify(config).await?;
    if as_json {
        println!("{}", json!(verified));
    } else {
        verified.told.iter().for_each(|line| println!("{line}"));
        for difference in &verified.differences {
            let id = difference.id.map_or_else(String::new, |id| format!(" {id}"));
            println!("DIFFERENCE {}{id}: {}", difference.table, difference.what);
        }
        println!("{} differences, {} findings", verified.differences.len(), verified.findings);
    }
    Ok(if verified.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
