//! `onceward ledger check`.

use anyhow::Context;
use onceward::{
    Config, Db, Scope, Section, TenantId,
    cli::{Common, NOTHING},
};
use onceward_ledger::{self as ledger, Checked};
use serde_json::json;
use std::process::ExitCode;

/// Look at the ledger
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Compare balances with their entries, look for events that do not balance, and draw up the trial balance
    ///
    /// Reads every entry, and changes nothing: it is for the quiet hours. Amounts are in minor units.
    ///
    /// Exit codes: 0 all agrees, 1 something differs and is named, 3 there is no ledger to check.
    Check(CheckArgs),
}

/// Arguments of `ledger check`.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// Only this tenant's
    #[arg(long)]
    tenant: Option<TenantId>,
    /// How long each look into the database may take
    #[arg(long, default_value_t = 3600, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    timeout_s: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs one command. `sections` are those of the services, which the settings file may have.
pub fn main(common: &Common, sections: &[Section], command: &Command) -> ExitCode {
    onceward::cli::install_crypto();
    let Command::Check(args) = command;
    let done = || {
        let config = Config::load(common.config.as_deref(), sections)?;
        anyhow::ensure!(!config.database.url.is_empty(), "no database is named; set DATABASE_URL");
        tokio::runtime::Runtime::new()?.block_on(check(&config, args))
    };
    done().unwrap_or_else(|error: anyhow::Error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

async fn check(config: &Config, args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let mut database = config.db();
    database.statement_timeout_ms = u64::from(args.timeout_s) * 1000;
    let db = Db::connect(database)?;
    let tenants = ledger::tenants(&db).await.context("the ledger cannot be read; `onceward migrate` makes one")?;
    let mut checked = Vec::new();
    for tenant in tenants.into_iter().filter(|tenant| args.tenant.as_ref().is_none_or(|wanted| wanted == tenant)) {
        let tx = db.begin(Scope::tenant(tenant.clone())).await?;
        let found = ledger::check(&tx).await.with_context(|| format!("the ledger of {tenant} cannot be checked"))?;
        tx.rollback().await?;
        checked.push((tenant, found));
    }
    Ok(report(&checked, args.json))
}

fn report(checked: &[(TenantId, Checked)], as_json: bool) -> ExitCode {
    let agrees = checked.iter().all(|(_, found)| found.agrees());
    if as_json {
        let tenants = checked.iter().map(|(tenant, found)| {
            json!({
                "tenant_id": tenant, "agrees": found.agrees(), "differences": found.differences,
                "unbalanced": found.unbalanced, "trial_balance": found.trial_balance,
            })
        });
        println!("{}", json!({ "agrees": agrees, "tenants": tenants.collect::<Vec<_>>() }));
    } else {
        checked.iter().for_each(|(tenant, found)| in_words(tenant, found));
    }
    match (checked.is_empty(), agrees) {
        (true, _) => {
            eprintln!("there is no ledger to check");
            ExitCode::from(NOTHING)
        }
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::FAILURE,
    }
}

fn in_words(tenant: &TenantId, found: &Checked) {
    println!("{tenant}: {}", if found.agrees() { "all agrees" } else { "SOMETHING DIFFERS" });
    for line in &found.trial_balance {
        println!("  {} {}: debits {}, credits {}", line.account, line.currency, line.debits, line.credits);
    }
    for (currency, left) in found.left_over() {
        println!("  DIFFERENCE {currency}: debits less credits of all accounts leave {left}");
    }
    for one in &found.differences {
        let ledger::Difference { loan_id, account, currency, kept, recomputed } = one;
        println!(
            "  DIFFERENCE loan {loan_id} {account} {currency}: the balance is {kept}, its entries add up to {recomputed}"
        );
    }
    for one in &found.unbalanced {
        let currency = one.currency.map_or_else(|| "without entries".to_owned(), |currency| currency.to_string());
        println!(
            "  DIFFERENCE event {} of loan {} {currency}: debits {}, credits {}",
            one.event_id, one.loan_id, one.debits, one.credits
        );
    }
    if found.may_be_more() {
        println!("  there may be more: {} of a kind are shown at most", ledger::check::MAX_FINDINGS);
    }
}
