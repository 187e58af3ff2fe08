//! `audit export`.

use super::{ProgressLine, exit_with_nothing, selected_tenants};
use crate::commands::dlq::open_output;
use onceward_audit as audit;
use onceward_db::{Db, Scope};
use onceward_envelope::TenantId;
use std::{io::Write, path::PathBuf, process::ExitCode};

/// Entries held in memory at once.
const PAGE: u32 = 250;

/// Arguments of `audit export`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The tenant of the chain
    #[arg(long)]
    tenant: TenantId,
    /// The first entry
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..))]
    from: i64,
    /// The last entry. Default: the last that exists when the command starts
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    to: Option<i64>,
    /// The file to write; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

pub(super) async fn run(db: &Db, args: &Args) -> anyhow::Result<ExitCode> {
    let has_chain = !selected_tenants(db, Some(&args.tenant)).await?.is_empty();
    let head = if has_chain { audit::head(db, &args.tenant).await? } else { None };
    let to = head.map_or(0, |head| head.seq).min(args.to.unwrap_or(i64::MAX));
    if to < args.from {
        return Ok(exit_with_nothing("there is nothing to export"));
    }
    let mut out = open_output(&args.out)?;
    let mut progress = ProgressLine::new();
    let (mut after, mut written) = (args.from - 1, 0_u64);
    loop {
        let tx = db.begin(Scope::for_tenant(args.tenant.clone())).await?;
        let entries = audit::page(&tx, after, to, PAGE).await?;
        tx.rollback().await?;
        let Some(last) = entries.last() else { break };
        after = last.link.seq;
        for entry in &entries {
            serde_json::to_writer(&mut out, &entry.link)?;
            out.write_all(b"\n")?;
            written += 1;
        }
        progress.update(|| format!("{written} written"));
    }
    out.flush()?;
    eprintln!("{written} written");
    Ok(ExitCode::SUCCESS)
}
