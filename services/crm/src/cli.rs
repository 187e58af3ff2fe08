//! `onceward crm`: explain one mail, and check its artifact.

use crate::{Settings, explain, state::CrmState};
use anyhow::{Context, bail};
use onceward::{Config, Db, Scope, Section, TenantId};
use onceward_cli::{
    CommonArgs, EXIT_NOTHING_TO_DO,
    table::{WidthArgs, paragraph},
};
use serde_json::{Value, json};
use std::{path::PathBuf, process::ExitCode};
use uuid::Uuid;

/// Inspect mails
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Show everything that is known about a mail, in order: request, checks, template version, conversation, events
    ///
    /// Exit status: 0 if the mail exists and its artifact matches the audit chain, 1 if something differs, 3 if there is no such mail.
    Explain(ExplainArgs),
    /// Write a mail's message and manifest into a folder, to be checked offline
    Export(ExportArgs),
    /// Check exported files against an export of the audit chain, without a database
    Verify(VerifyArgs),
}

/// Arguments of `crm explain`.
#[derive(Debug, clap::Args)]
pub struct ExplainArgs {
    /// The mail
    email_id: Uuid,
    /// Its tenant
    #[arg(long)]
    tenant: TenantId,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    wide: WidthArgs,
}

/// Arguments of `crm export`.
#[derive(Debug, clap::Args)]
pub struct ExportArgs {
    /// The mail
    email_id: Uuid,
    /// Its tenant
    #[arg(long)]
    tenant: TenantId,
    /// The folder; it is created
    #[arg(long)]
    to: PathBuf,
}

/// Arguments of `crm verify`.
#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    /// The folder that `crm export` wrote
    folder: PathBuf,
    /// The chain that `onceward audit export` wrote. Check the chain itself with `onceward audit verify --file`
    #[arg(long)]
    audit: PathBuf,
}

/// Runs one command. `sections` are the services' sections that the settings file may contain.
pub fn main(common: &CommonArgs, sections: &[Section], command: &Command) -> ExitCode {
    onceward::install_crypto_provider();
    let run = || {
        if let Command::Verify(args) = command {
            return verify(args);
        }
        let config = common.load(sections)?;
        onceward_cli::database(&config)?;
        tokio::runtime::Runtime::new()?.block_on(async {
            match command {
                Command::Explain(args) => explain(&config, args).await,
                Command::Export(args) => export(&config, args).await,
                Command::Verify(args) => verify(args),
            }
        })
    };
    run().unwrap_or_else(|error: anyhow::Error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn state(config: &Config) -> anyhow::Result<std::sync::Arc<CrmState>> {
    let settings: Settings = config.section(&crate::SECTION)?;
    Ok(CrmState::new(settings.or_derived_from(&config.auth.secret)))
}

async fn explain(config: &Config, args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let (state, db) = (state(config)?, Db::connect(config.db())?);
    let tx = db.begin(Scope::for_tenant(args.tenant.clone())).await?;
    let explained = explain::explain(&tx, &state, args.email_id).await.context("the mail cannot be read")?;
    tx.rollback().await?;
    let Some(explained) = explained else {
        eprintln!("there is no mail {} of {}", args.email_id, args.tenant);
        return Ok(ExitCode::from(EXIT_NOTHING_TO_DO));
    };
    if args.json {
        println!("{explained}");
    } else {
        let width = args.wide.columns();
        for line in explain::lines(&explained) {
            print!("{}", paragraph("", &line, 4, width));
        }
    }
    let differs = explained["artifact"]["differences"].as_array().is_some_and(|found| !found.is_empty());
    Ok(if differs { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn export(config: &Config, args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let (state, db) = (state(config)?, Db::connect(config.db())?);
    let tx = db.begin(Scope::for_tenant(args.tenant.clone())).await?;
    let check =
        crate::artifacts::check_artifact(&tx, &state, args.email_id).await.context("the artifact cannot be read")?;
    let message =
        crate::artifacts::read_message(&tx, &state, args.email_id).await.context("the message cannot be read")?;
    let manifest =
        crate::artifacts::read_manifest(&tx, &state, args.email_id).await.context("the manifest cannot be read")?;
    tx.rollback().await?;
    let (Some(_), Some(message), Some(manifest)) = (check, message, manifest) else {
        eprintln!(
            "there is no mail {} of {}, it was not rendered yet, or its contact was erased",
            args.email_id, args.tenant
        );
        return Ok(ExitCode::from(EXIT_NOTHING_TO_DO));
    };
    std::fs::create_dir_all(&args.to).with_context(|| format!("{} cannot be created", args.to.display()))?;
    std::fs::write(args.to.join("message.eml"), message)?;
    std::fs::write(args.to.join("manifest.json"), manifest)?;
    println!("wrote message.eml and manifest.json to {}", args.to.display());
    Ok(ExitCode::SUCCESS)
}

/// Compares the hashes of the files with each other and with the audit entry that names the manifest.
fn verify(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let read = |name: &str| {
        let path = args.folder.join(name);
        std::fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))
    };
    let (message, manifest_bytes) = (read("message.eml")?, read("manifest.json")?);
    let chain =
        std::fs::read_to_string(&args.audit).with_context(|| format!("{} cannot be read", args.audit.display()))?;
    let manifest: Value = serde_json::from_slice(&manifest_bytes).context("manifest.json is not JSON")?;
    if manifest["message_sha256"] != json!(explain::sha256_hex(&message)) {
        bail!("message.eml is not the message that the manifest names");
    }
    let hash = explain::sha256_hex(&manifest_bytes);
    let email_id = manifest["email_id"].as_str().unwrap_or_default();
    let names_it = |line: &str| -> Option<i64> {
        let link: Value = serde_json::from_str(line).ok()?;
        let document: Value = serde_json::from_str(link["document"].as_str()?).ok()?;
        let is_named = document["objectId"] == email_id && document["newValue"]["manifest_sha256"] == hash;
        is_named.then(|| link["seq"].as_i64()).flatten()
    };
    match chain.lines().find_map(names_it) {
        Some(seq) => {
            println!("the message and the manifest are those that audit entry {seq} names");
            Ok(ExitCode::SUCCESS)
        }
        None => bail!("no entry of the exported chain names this manifest"),
    }
}
