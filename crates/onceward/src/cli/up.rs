//! `up`: everything in one process.

use crate::{
    Config, Platform,
    config::{AuthKind, LogFormat},
    embedded,
    runtime::{Role, Running},
};
use onceward_envelope::TenantId;
use onceward_local_postgres::{Cluster, Shutdown};
use onceward_web::routes::Access;
use std::{path::PathBuf, process::ExitCode};
use tokio_util::sync::CancellationToken;

const DEMO_TENANT: &str = "demo";
const DEMO_USER: &str = "developer";
const TOKEN_DAYS: u64 = 7;

/// Arguments of `up`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder that holds the private database and the local key
    #[arg(long, default_value = ".onceward", env = "ONCEWARD_DATA")]
    data: PathBuf,
    /// Where the API listens; overrides http.listen. Port 0 takes a free one
    #[arg(long)]
    listen: Option<String>,
}

pub(super) async fn run(platform: Platform, mut config: Config, args: Args) -> anyhow::Result<ExitCode> {
    if std::env::var_os("ONCEWARD_TELEMETRY_LOG_FORMAT").is_none() {
        config.telemetry.log_format = LogFormat::Text;
    }
    let exporter = super::log(&config)?;
    let stop = CancellationToken::new();
    let signalled = stop.clone();
    tokio::spawn(async move {
        super::stop_signal().await;
        signalled.cancel();
    });
    let listener = super::serve::bind(args.listen.as_deref().unwrap_or(&config.http.listen)).await?;
    let cluster = own_cluster(&mut config, &args).await?;
    for step in super::migrate(&platform, &config).await? {
        tracing::info!(step, "applied");
    }
    let address = listener.local_addr()?;
    let mut running = Running::new(platform.clone(), config.clone(), stop.clone())?;
    super::tenant::add(running.db(), &TenantId::new(DEMO_TENANT)?).await?;
    running.start(&[Role::All], Some(listener))?;
    print_how_to_call(&platform, &config, &format!("http://{address}"), cluster.as_ref());
    running.finished().await;
    exporter.flush();
    if let Some(mut cluster) = cluster {
        eprintln!("stopping the private PostgreSQL");
        tokio::task::spawn_blocking(move || cluster.stop(Shutdown::Fast)).await??;
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a secret for tokens, unless the settings name one or a key set.
pub(super) fn own_secret(config: &mut Config, args: &Args) -> anyhow::Result<()> {
    if config.auth.mode == AuthKind::Hs256 && config.auth.secret.is_empty() {
        config.auth.secret = embedded::secret(&args.data)?;
    }
    Ok(())
}

/// Starts the private PostgreSQL, unless the settings name another.
async fn own_cluster(config: &mut Config, args: &Args) -> anyhow::Result<Option<Cluster>> {
    if !config.database.url.is_empty() {
        return Ok(None);
    }
    eprintln!("starting a private PostgreSQL in {}", args.data.display());
    let cluster = embedded::start(&args.data).await?;
    config.database.url = embedded::url(&cluster);
    Ok(Some(cluster))
}

fn print_how_to_call(platform: &Platform, config: &Config, url: &str, cluster: Option<&Cluster>) {
    println!("\nOnceward is up: {}", platform.names().join(", "));
    println!("  API        {url}   (also /openapi.json, /metrics, /health/ready)");
    if let Some(cluster) = cluster {
        println!("  database   {}", config.database.url);
        println!("  data       {}", cluster.data_dir().display());
    }
    if config.auth.mode == AuthKind::Jwks {
        println!("  tokens come from your key set (auth.jwks_file or auth.jwks_url)\n");
        return;
    }
    let token = super::token::issue(config, DEMO_TENANT, DEMO_USER, platform.roles(), TOKEN_DAYS * 24 * 3600);
    println!("  tenant     {DEMO_TENANT}");
    println!("  token      {token}");
    println!("             (all roles, {TOKEN_DAYS} days; more with `onceward token issue`)");
    println!("\ntry:\n  {}\n", curl(platform, url, &token));
    println!("Ctrl-C stops everything; the data stays.");
}

/// A call that works: the first route with an example in its contract, or a reading route.
fn curl(platform: &Platform, url: &str, token: &str) -> String {
    for (_, routes) in platform.routes() {
        for spec in routes.specs().filter(|spec| spec.access != Access::Public) {
            let example = spec
                .request
                .as_deref()
                .and_then(|id| platform.schemas().get(id))
                .and_then(|schema| schema.get("examples")?.get(0).cloned());
            if let Some(example) = example {
                return format!(
                    "curl -i {url}{} \\\n    -H 'authorization: Bearer {token}' \\\n    -H 'idempotency-key: first-try' \\\n    \
                     -H 'content-type: application/json' \\\n    -d '{example}'",
                    spec.path
                );
            }
        }
    }
    format!("curl -i {url}/health/ready")
}
