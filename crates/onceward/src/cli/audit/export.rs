//! `audit export`.

use super::{Progress, chosen, nothing};
use crate::cli::dlq::open;
use onceward_audit as audit;
use onceward_db::{Db, Scope};
use onceward_envelope::TenantId;
use std::{io::Write, path::PathBuf, process::ExitCode};

/// Entries held in memory at once.
const PAGE: u32 = 250;

/// Arguments of `audit export`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Whose chain
    #[arg(long)]
    tenant: TenantId,
    /// From this entry on
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..))]
    from: i64,
    /// Up to this entry; up to the last that is there when this starts without it
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    to: Option<i64>,
    /// Where to; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

pub(super) async fn run(db: &Db, args: &Args) -> anyhow::Result<ExitCode> {
    let is_there = !chosen(db, Some(&args.tenant)).await?.is_empty();
    let head = if is_there { audit::head(db, &args.tenant).await? } else { None };
    let to = head.map_or(0, |head| head.seq).min(args.to.unwrap_or(i64::MAX));
    if to < args.from {
        return Ok(nothing("there is nothing to export"));
    }
    let mut out = open(&args.out)?;
    let mut progress = Progress::new();
    let (mut after, mut written) = (args.from - 1, 0_u64);
    loop {
        let tx = db.begin(Scope::tenant(args.tenant.clone())).await?;
        let entries = audit::page(&tx, after, to, PAGE).await?;
        tx.rollback().await?;
        let Some(last) = entries.last() else { break };
        after = last.link.seq;
        for entry in &entries {
            serde_json::to_writer(&mut out, &entry.link)?;
            out.write_all(b"\n")?;
            written += 1;
        }
        progress.at(|| format!("{written} written"));
    }
    out.flush()?;
    eprintln!("{written} written");
    Ok(ExitCode::SUCCESS)
}
