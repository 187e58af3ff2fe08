//! `audit heads`.

use super::{exit_with_nothing, selected_tenants};
use crate::table::{TextTable, WidthArgs, below, fixed, number, text};
use onceward_audit as audit;
use onceward_db::Db;
use onceward_envelope::TenantId;
use std::process::ExitCode;

/// Arguments of `audit heads`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only the chain of this tenant
    #[arg(long)]
    tenant: Option<TenantId>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: WidthArgs,
}

pub(super) async fn run(db: &Db, args: &Args) -> anyhow::Result<ExitCode> {
    let mut table = TextTable::new(&[text("tenant"), number("entries"), fixed("when"), below("hash")]);
    let mut none = true;
    for tenant in selected_tenants(db, args.tenant.as_ref()).await? {
        match audit::head(db, &tenant).await? {
            None => {
                eprintln!("{tenant}: the head of the chain is missing; run `onceward audit verify --tenant {tenant}`")
            }
            Some(head) if args.json => println!("{}", serde_json::to_string(&head)?),
            Some(head) => {
                let at = head.at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
                table.row([tenant.to_string(), head.seq.to_string(), at, hex::encode(&head.hash)]);
            }
        }
        none = false;
    }
    if none {
        return Ok(exit_with_nothing("there are no chains"));
    }
    if !args.json {
        table.print(args.width, "no chain has a head");
    }
    Ok(ExitCode::SUCCESS)
}
