//! `audit verify`.

use super::{Progress, chosen, nothing};
use anyhow::Context;
use onceward_audit::{self as audit, Heads, Verified};
use onceward_db::Db;
use onceward_envelope::TenantId;
use serde_json::json;
use std::{
    collections::BTreeSet,
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Arguments of `audit verify`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this tenant's chain
    #[arg(long)]
    tenant: Option<TenantId>,
    /// Heads that were exported before; the chains must pass them
    #[arg(long, value_name = "FILE")]
    heads: Option<PathBuf>,
    /// An export to verify instead of the database, which is not needed then
    ///
    /// A chain that begins in the middle is taken from there on.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn is_offline(&self) -> bool {
        self.file.is_some()
    }

    fn heads(&self) -> anyhow::Result<Heads> {
        match &self.heads {
            None => Ok(Heads::default()),
            Some(path) => {
                Heads::read(open(path)?).with_context(|| format!("cannot read heads from {}", path.display()))
            }
        }
    }

    fn wants(&self, tenant: &TenantId) -> bool {
        self.tenant.as_ref().is_none_or(|wanted| wanted == tenant)
    }
}

/// In the database.
pub(super) async fn run(db: &Db, args: &Args) -> anyhow::Result<ExitCode> {
    let heads = args.heads()?;
    let mut tenants: BTreeSet<TenantId> = chosen(db, args.tenant.as_ref()).await?.into_iter().collect();
    tenants.extend(heads.tenants().filter(|tenant| args.wants(tenant)).cloned());
    if !tenants.is_empty() && !audit::is_there(db).await? {
        anyhow::bail!("there are exported heads, but this database keeps no audit trail: is it the right one?");
    }
    let mut progress = Progress::new();
    let mut chains = Vec::with_capacity(tenants.len());
    for tenant in &tenants {
        let told = |entries| progress.at(|| format!("{tenant}: {entries} entries so far"));
        chains.push(audit::verify(db, tenant, &heads, told).await?);
    }
    Ok(report(&chains, args.json))
}

/// In an export.
pub(super) fn offline(args: &Args) -> anyhow::Result<ExitCode> {
    let path = args.file.as_deref().expect("asked for with a file");
    let mut progress = Progress::new();
    let told = |lines| progress.at(|| format!("{lines} lines so far"));
    let chains = audit::verify_file(open(path)?, args.tenant.as_ref(), &args.heads()?, told)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(report(&chains, args.json))
}

fn report(chains: &[Verified], as_json: bool) -> ExitCode {
    let whole = chains.iter().all(|chain| chain.broken.is_none());
    if as_json {
        println!("{}", json!({ "whole": whole, "chains": chains }));
    } else {
        chains.iter().for_each(in_words);
    }
    match (chains.is_empty(), whole) {
        (true, _) => nothing("there is no chain to verify"),
        (_, true) => ExitCode::SUCCESS,
        (_, false) => ExitCode::FAILURE,
    }
}

fn in_words(chain: &Verified) {
    match &chain.broken {
        Some(broken) => println!("{broken}"),
        None => {
            let Verified { tenant_id, entries, seq, hash, .. } = chain;
            println!("{tenant_id}: whole, {entries} entries, the last is {seq} with the hash {hash}");
        }
    }
}

fn open(path: &Path) -> anyhow::Result<BufReader<File>> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(BufReader::new(file))
}
