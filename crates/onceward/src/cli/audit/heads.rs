//! `audit heads`.

use super::{chosen, nothing};
use onceward_audit as audit;
use onceward_db::Db;
use onceward_envelope::TenantId;
use std::process::ExitCode;

/// Arguments of `audit heads`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this tenant's
    #[arg(long)]
    tenant: Option<TenantId>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(db: &Db, args: &Args) -> anyhow::Result<ExitCode> {
    let mut none = true;
    for tenant in chosen(db, args.tenant.as_ref()).await? {
        match audit::head(db, &tenant).await? {
            None => eprintln!("{tenant}: the chain has lost its head, see `onceward audit verify --tenant {tenant}`"),
            Some(head) if args.json => println!("{}", serde_json::to_string(&head)?),
            Some(head) => println!("{tenant}  {}  {}  {}", head.seq, hex::encode(&head.hash), head.at),
        }
        none = false;
    }
    Ok(if none { nothing("there are no chains") } else { ExitCode::SUCCESS })
}
