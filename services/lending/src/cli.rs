//! `onceward ledger check`.

use anyhow::Context;
use onceward::{Config, Db, Scope, Section, TenantId};
use onceward_cli::{
    CommonArgs, EXIT_NOTHING_TO_DO,
    table::{TextTable, WidthArgs, fixed, number, paragraph, text},
};
use onceward_ledger::{self as ledger, LedgerCheck, TrialBalanceLine};
use onceward_money::Currency;
use serde_json::json;
use std::{collections::BTreeMap, process::ExitCode};
use uuid::Uuid;

/// Inspect the ledger
#[derive(Debug, clap::Subcommand)]
pub enum LedgerCommand {
    /// Compare balances with their entries, find events that do not balance, and print the trial balance
    ///
    /// Reads every entry and changes nothing; run it during off-peak hours. Amounts are in minor units.
    ///
    /// Exit status: 0 if everything agrees, 1 if something differs, 3 if there is no ledger to check.
    Check(LedgerCheckArgs),
}

/// Arguments of `ledger check`.
#[derive(Debug, clap::Args)]
pub struct LedgerCheckArgs {
    /// Check only this tenant
    #[arg(long)]
    tenant: Option<TenantId>,
    /// The timeout of each statement
    #[arg(long, default_value_t = 3600, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    timeout_s: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    wide: WidthArgs,
}

/// Runs one command. `sections` are the services' sections that the settings file may contain.
pub fn main(common: &CommonArgs, sections: &[Section], command: &LedgerCommand) -> ExitCode {
    onceward::install_crypto_provider();
    let LedgerCommand::Check(args) = command;
    let run = || {
        let config = common.load(sections)?;
        onceward_cli::database(&config)?;
        tokio::runtime::Runtime::new()?.block_on(check(&config, args))
    };
    run().unwrap_or_else(|error: anyhow::Error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

async fn check(config: &Config, args: &LedgerCheckArgs) -> anyhow::Result<ExitCode> {
    let mut database = config.db();
    database.statement_timeout_ms = u64::from(args.timeout_s) * 1000;
    let db = Db::connect(database)?;
    let tenants = ledger::tenants(&db).await.context("the ledger cannot be read; `onceward migrate` creates it")?;
    let mut checks = Vec::new();
    for tenant in tenants.into_iter().filter(|tenant| args.tenant.as_ref().is_none_or(|wanted| wanted == tenant)) {
        let tx = db.begin(Scope::for_tenant(tenant.clone())).await?;
        let check = ledger::check(&tx).await.with_context(|| format!("the ledger of {tenant} cannot be checked"))?;
        tx.rollback().await?;
        checks.push((tenant, check));
    }
    Ok(report(&checks, args))
}

fn report(checks: &[(TenantId, LedgerCheck)], args: &LedgerCheckArgs) -> ExitCode {
    let agrees = checks.iter().all(|(_, check)| check.agrees());
    if args.json {
        let tenants = checks.iter().map(|(tenant, check)| {
            json!({
                "tenant_id": tenant, "agrees": check.agrees(), "differences": check.differences,
                "unbalanced": check.unbalanced, "trial_balance": check.trial_balance,
            })
        });
        println!("{}", json!({ "agrees": agrees, "tenants": tenants.collect::<Vec<_>>() }));
    } else {
        let width = args.wide.columns();
        checks.iter().for_each(|(tenant, check)| print!("{}", render(tenant, check, width)));
    }
    match (checks.is_empty(), agrees) {
        (true, _) => {
            eprintln!("there is no ledger to check");
            ExitCode::from(EXIT_NOTHING_TO_DO)
        }
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::FAILURE,
    }
}

fn render(tenant: &TenantId, check: &LedgerCheck, width: Option<usize>) -> String {
    let mut text = format!("{tenant}: {}\n", if check.agrees() { "everything agrees" } else { "SOMETHING DIFFERS" });
    text += &trial_balance(check).render(width);
    let differences = differences(check);
    text.extend(differences.iter().map(|difference| paragraph("  DIFFERENCE ", difference, 4, width)));
    if check.is_truncated() {
        let more = format!("there may be more: at most {} of each kind are shown", ledger::MAX_FINDINGS);
        text += &paragraph("  ", &more, 4, width);
    }
    text
}

/// Returns one row per account, and a total after the accounts of each currency.
fn trial_balance(check: &LedgerCheck) -> TextTable {
    let mut table = TextTable::new(&[text("account"), fixed("currency"), number("debits"), number("credits")]);
    let mut by_currency: BTreeMap<Currency, Vec<&TrialBalanceLine>> = BTreeMap::new();
    check.trial_balance.iter().for_each(|line| by_currency.entry(line.currency).or_default().push(line));
    for (currency, lines) in by_currency {
        let (mut debits, mut credits) = (0_i128, 0_i128);
        for line in lines {
            debits += i128::from(line.debits.get());
            credits += i128::from(line.credits.get());
            let amounts = [line.debits.to_string(), line.credits.to_string()];
            table.row([line.account.to_string(), currency.to_string()].into_iter().chain(amounts));
        }
        table.row(["total".to_owned(), currency.to_string(), debits.to_string(), credits.to_string()]);
    }
    table
}

fn differences(check: &LedgerCheck) -> Vec<String> {
    let imbalances = check.imbalances();
    let imbalances = imbalances
        .iter()
        .map(|(currency, imbalance)| format!("{currency}: debits less credits of all accounts are {imbalance}, not 0"));
    let balances = check.differences.iter().map(|difference| {
        let ledger::BalanceDifference { loan_id, account, currency, stored, recomputed } = difference;
        let owner = owner_of(*loan_id);
        format!("{owner} {account} {currency}: the balance is {stored}, its entries add up to {recomputed}")
    });
    let events = check.unbalanced.iter().map(|event| {
        let currency = event.currency.map_or_else(|| "without entries".to_owned(), |currency| currency.to_string());
        let owner = owner_of(event.loan_id);
        format!("event {} of {owner} {currency}: debits {}, credits {}", event.event_id, event.debits, event.credits)
    });
    imbalances.chain(balances).chain(events).collect()
}

fn owner_of(loan_id: Uuid) -> String {
    if loan_id == ledger::NO_LOAN { "the tenant".to_owned() } else { format!("loan {loan_id}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_ledger::Account;
    use onceward_money::Minor;

    fn line(account: Account, currency: &str, debits: i64, credits: i64) -> TrialBalanceLine {
        let currency = currency.parse().expect("a currency");
        TrialBalanceLine { account, currency, debits: Minor::new(debits), credits: Minor::new(credits) }
    }

    fn check_with_imbalance() -> LedgerCheck {
        let trial_balance = vec![
            line(Account::Cash, "EUR", 70, 0),
            line(Account::Cash, "USD", 5_000, 120_000),
            line(Account::LoanPrincipal, "EUR", 0, 70),
            line(Account::LoanPrincipal, "USD", 120_000, 4_995),
        ];
        LedgerCheck { differences: Vec::new(), unbalanced: Vec::new(), trial_balance }
    }

    #[test]
    fn the_trial_balance_is_aligned_and_has_a_total_for_each_currency() {
        let expected = "account         currency  debits  credits
cash            EUR           70        0
loan_principal  EUR            0       70
total           EUR           70       70
cash            USD         5000   120000
loan_principal  USD       120000     4995
total           USD       125000   124995
";
        assert_eq!(trial_balance(&check_with_imbalance()).render(None), expected);
    }

    #[test]
    fn no_line_of_the_check_is_wider_than_the_terminal() {
        let tenant = TenantId::new("acme").expect("a tenant");
        let text = render(&tenant, &check_with_imbalance(), Some(40));
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("DIFFERENCE USD: debits less credits of all accounts are 5, not 0"), "{text}");
    }
}
