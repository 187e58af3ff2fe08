//! `up`: everything in one process.

use super::{operator, token::TokenRequest};
use crate::{embedded, private_server::PrivateServer};
use onceward::{
    Config, Platform,
    config::{AuthKind, LogFormat},
    runtime::{ProcessRuntime, Role},
};
use onceward_envelope::TenantId;
use onceward_web::routes::Access;
use std::{path::PathBuf, process::ExitCode, time::Duration};
use tokio_util::sync::CancellationToken;

const DEMO_TENANT: &str = "demo";
const DEMO_USER: &str = "developer";
const TOKEN_DAYS: u64 = 7;
/// The reason that the audit trail records for the token of an `up`.
const WHY: &str = "`onceward up` was started";

/// Arguments of `up`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The value of `--data`, which every command accepts.
    #[arg(skip)]
    pub(crate) data: PathBuf,
    /// The address of the API; overrides http.listen. Port 0 selects a free port
    #[arg(long)]
    listen: Option<String>,
}

pub(super) async fn run(platform: Platform, mut config: Config, args: Args) -> anyhow::Result<ExitCode> {
    if std::env::var_os("ONCEWARD_TELEMETRY_LOG_FORMAT").is_none() {
        config.telemetry.log_format = LogFormat::Text;
    }
    let telemetry = super::install_telemetry(&config)?;
    let stop = CancellationToken::new();
    crate::signals::stop_on_signal(stop.clone(), Duration::ZERO, stop.clone());
    let listener = super::serve::bind(args.listen.as_deref().unwrap_or(&config.http.listen)).await?;
    let server = start_private_server(&mut config, &args).await?;
    if server.is_none() {
        super::refuse_pooler(&config).await?;
    }
    match super::migrate(&platform, &config).await?.len() {
        0 => tracing::info!("the database is up to date"),
        steps => tracing::info!(steps, "the database was migrated"),
    }
    let address = listener.local_addr()?;
    let mut runtime = ProcessRuntime::new(platform.clone(), config.clone(), stop.clone())?;
    runtime.require_dedicated_sessions().await?;
    if let Some(server) = &server {
        runtime.add_check("postgresql", server.check());
        server.report_to(runtime.supervisor());
    }
    let tenant = TenantId::new(DEMO_TENANT)?;
    super::tenant::add(runtime.db(), &tenant).await?;
    let token = demo_token(&platform, &config, &tenant).await;
    runtime.start(&[Role::All], Some(listener))?;
    print_instructions(&platform, &config, &format!("http://{address}"), server.as_ref(), token.as_deref());
    runtime.finished().await;
    telemetry.flush();
    if let Some(server) = server {
        eprintln!("stopping the private PostgreSQL");
        server.stop().await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Creates a secret for tokens, unless the settings name one or a key set.
pub(crate) fn ensure_secret(config: &mut Config, args: &Args) -> anyhow::Result<()> {
    if config.auth.mode == AuthKind::Hs256 && config.auth.secret.is_empty() {
        config.auth.secret = embedded::load_or_create_secret(&args.data)?;
    }
    Ok(())
}

/// Starts the private PostgreSQL, unless the settings name a database.
async fn start_private_server(config: &mut Config, args: &Args) -> anyhow::Result<Option<PrivateServer>> {
    if !config.database.url.is_empty() {
        return Ok(None);
    }
    eprintln!("starting a private PostgreSQL in {}", args.data.display());
    let cluster = embedded::start(&args.data).await?;
    if let Some(inaccessible) = cluster.closed_folder() {
        eprintln!(
            "the data is stored in {}, because the account that runs PostgreSQL cannot access {}; \
             to store it elsewhere, choose an accessible folder with --data",
            cluster.data_dir().display(),
            inaccessible.display()
        );
    }
    config.database.url = embedded::database_url(&cluster);
    Ok(Some(PrivateServer::monitor(cluster)))
}

/// Issues a token with all roles, recorded like any other; `None` where tokens come from a key set.
async fn demo_token(platform: &Platform, config: &Config, tenant: &TenantId) -> Option<String> {
    if config.auth.mode == AuthKind::Jwks {
        return None;
    }
    let request = TokenRequest { tenant, user: DEMO_USER, roles: &platform.roles(), hours: TOKEN_DAYS * 24 };
    Some(request.issue(config, &operator::account(WHY)).await)
}

fn print_instructions(
    platform: &Platform,
    config: &Config,
    url: &str,
    server: Option<&PrivateServer>,
    token: Option<&str>,
) {
    println!("\nOnceward is up: {}", platform.names().join(", "));
    println!("  API        {url}   (reference: {url}/docs)");
    for switch in &config.demo {
        println!("  demo       {switch}   (set by `up` only; set it to false for real data)");
    }
    if let Some(server) = server {
        println!("  database   {}", config.database.url);
        println!("  data       {}", server.data_dir().display());
    }
    let Some(token) = token else {
        println!("  tokens come from your key set (auth.jwks_file or auth.jwks_url)\n");
        return;
    };
    println!("  tenant     {DEMO_TENANT}");
    println!("\na token with all roles, valid for {TOKEN_DAYS} days (`onceward token issue` creates others):");
    println!("  export TOKEN={token}");
    println!("\ntry:\n  {}\n", curl_example(platform, url));
    println!("Ctrl-C stops everything; the data is kept.");
}

/// Returns a command that works: it calls the first route whose schema has an example, or else the readiness check.
fn curl_example(platform: &Platform, url: &str) -> String {
    for (_, routes) in platform.routes() {
        for spec in routes.specs().filter(|spec| spec.access != Access::Public) {
            let example = spec
                .request
                .as_deref()
                .and_then(|id| platform.schemas().get(id))
                .and_then(|schema| schema.get("examples")?.get(0).cloned());
            if let Some(example) = example {
                return format!(
                    "curl -i {url}{} \\\n    -H \"authorization: Bearer $TOKEN\" \\\n    -H 'idempotency-key: first-try' \\\n    \
                     -H 'content-type: application/json' \\\n    -d '{example}'",
                    spec.path
                );
            }
        }
    }
    format!("curl -i {url}/health/ready")
}
