//! `audit verify`.

use super::{ProgressLine, exit_with_nothing, selected_tenants};
use crate::table::WidthArgs;
use anyhow::Context;
use onceward_audit::{self as audit, ChainVerification, ExportedHeads};
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
    /// A file of heads that were exported earlier; the chains must contain them
    #[arg(long, value_name = "FILE")]
    heads: Option<PathBuf>,
    /// An export to verify instead of the database
    ///
    /// A chain whose beginning is missing is verified from its first entry in the file on.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: WidthArgs,
}

impl Args {
    pub(super) fn is_offline(&self) -> bool {
        self.file.is_some()
    }

    fn heads(&self) -> anyhow::Result<ExportedHeads> {
        match &self.heads {
            None => Ok(ExportedHeads::default()),
            Some(path) => {
                ExportedHeads::read(open(path)?).with_context(|| format!("cannot read heads from {}", path.display()))
            }
        }
    }

    fn wants(&self, tenant: &TenantId) -> bool {
        self.tenant.as_ref().is_none_or(|wanted| wanted == tenant)
    }
}

/// Verifies the chains in the database.
pub(super) async fn run(db: &Db, args: &Args) -> anyhow::Result<ExitCode> {
    let heads = args.heads()?;
    let mut tenants: BTreeSet<TenantId> = selected_tenants(db, args.tenant.as_ref()).await?.into_iter().collect();
    tenants.extend(heads.tenants().filter(|tenant| args.wants(tenant)).cloned());
    if !tenants.is_empty() && !audit::exists(db).await? {
        anyhow::bail!(
            "heads were given, but this database has no audit trail; check that DATABASE_URL names the right database"
        );
    }
    let mut progress = ProgressLine::new();
    let mut chains = Vec::with_capacity(tenants.len());
    for tenant in &tenants {
        let report_progress = |entries| progress.update(|| format!("{tenant}: {entries} entries so far"));
        chains.push(audit::verify(db, tenant, &heads, report_progress).await?);
    }
    if chains.is_empty() && args.tenant.is_none() && audit::exists(db).await? {
        // A new system has nothing to verify yet, which must not make a nightly verification fail.
        report(&chains, args);
        return Ok(ExitCode::SUCCESS);
    }
    Ok(report(&chains, args))
}

/// Verifies the chains in an export.
pub(super) fn offline(args: &Args) -> anyhow::Result<ExitCode> {
    let path = args.file.as_deref().expect("offline verification has a file");
    let mut progress = ProgressLine::new();
    let report_progress = |lines| progress.update(|| format!("{lines} lines so far"));
    let chains = audit::verify_file(open(path)?, args.tenant.as_ref(), &args.heads()?, report_progress)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(report(&chains, args))
}

fn report(chains: &[ChainVerification], args: &Args) -> ExitCode {
    let all_intact = chains.iter().all(|chain| chain.broken.is_none());
    if args.json {
        println!("{}", json!({ "whole": all_intact, "chains": chains }));
    } else {
        chains.iter().for_each(|chain| args.width.print_wrapped("", &render(chain)));
    }
    match (chains.is_empty(), all_intact) {
        (true, _) => exit_with_nothing("there is no chain to verify: nothing has been recorded"),
        (_, true) => ExitCode::SUCCESS,
        (_, false) => ExitCode::FAILURE,
    }
}

fn render(chain: &ChainVerification) -> String {
    match &chain.broken {
        Some(broken) => broken.to_string(),
        None => {
            let ChainVerification { tenant_id, entries, seq, hash, .. } = chain;
            format!("{tenant_id}: intact, {entries} entries, the last is {seq} with the hash {hash}")
        }
    }
}

fn open(path: &Path) -> anyhow::Result<BufReader<File>> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(BufReader::new(file))
}
