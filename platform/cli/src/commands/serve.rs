//! `serve` and `migrate`.

use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use onceward::{
    Config, Platform,
    runtime::{ProcessRuntime, Role},
};
use std::{io::ErrorKind, net::SocketAddr, process::ExitCode, time::Duration};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Arguments of `serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A role of this process; may be given more than once
    #[arg(long = "role", value_parser = role_parser(), default_value = "all")]
    roles: Vec<Role>,
    /// The address to listen on; overrides http.listen or, without the API, http.metrics_listen
    #[arg(long)]
    listen: Option<String>,
    /// Apply migrations before serving
    #[arg(long)]
    migrate: bool,
}

fn role_parser() -> impl TypedValueParser<Value = Role> {
    let find = |name: String| Role::ALL.into_iter().find(|role| role.name() == name);
    PossibleValuesParser::new(Role::ALL.map(Role::name)).try_map(move |name| find(name).ok_or("not a role"))
}

/// Arguments of `migrate`.
#[derive(Debug, clap::Args)]
pub struct MigrateArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(platform: Platform, config: Config, args: Args) -> anyhow::Result<ExitCode> {
    super::database(&config)?;
    anyhow::ensure!(
        config.auth.mode == onceward::config::AuthKind::Jwks || !config.auth.secret.is_empty(),
        "auth.secret is empty; set ONCEWARD_AUTH_SECRET to a secret of at least 32 bytes"
    );
    let telemetry = super::install_telemetry(&config)?;
    if args.migrate {
        super::refuse_pooler(&config).await?;
        super::migrate(&platform, &config).await?;
    }
    let serves_http = args.roles.iter().any(|role| matches!(role, Role::Api | Role::All));
    let listener = match args.listen.as_deref() {
        Some(address) => Some(bind(address).await?),
        None if serves_http => Some(bind(&config.http.listen).await?),
        None if config.http.metrics_listen.is_empty() => None,
        None => Some(bind_for_metrics(&config.http.metrics_listen).await?),
    };
    // A process without the API receives no requests, so no client has to learn first that it is stopping.
    let drain = if serves_http { config.drain() } else { Duration::ZERO };
    let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
    let stop = CancellationToken::new();
    let mut runtime = ProcessRuntime::new(platform, config, stop.clone())?;
    runtime.require_dedicated_sessions().await?;
    runtime.start(&args.roles, listener)?;
    crate::signals::stop_on_signal(runtime.draining(), drain, stop);
    tracing::info!(roles = ?args.roles, address = address.map(tracing::field::display), "serving");
    runtime.finished().await;
    telemetry.flush();
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn bind(address: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; choose another address with --listen"))
}

/// Binds the metrics listener. Several processes without the API may run on one machine, so if the address is taken,
/// the system chooses a free port: metrics must not keep a process from its work.
async fn bind_for_metrics(address: &str) -> anyhow::Result<TcpListener> {
    let taken = match TcpListener::bind(address).await {
        Ok(listener) => return Ok(listener),
        Err(error) if error.kind() == ErrorKind::AddrInUse => address,
        Err(error) => return Err(error).with_context(|| format!("cannot listen on {address} (http.metrics_listen)")),
    };
    let mut free: SocketAddr = address.parse()?;
    free.set_port(0);
    let listener = TcpListener::bind(free).await.with_context(|| format!("cannot listen on {free}"))?;
    let address = listener.local_addr()?;
    tracing::warn!(%taken, %address, "http.metrics_listen is in use; serving health and metrics on a free port");
    Ok(listener)
}

pub(super) async fn migrate(platform: Platform, config: Config, args: MigrateArgs) -> anyhow::Result<ExitCode> {
    super::database(&config)?;
    let applied = super::migrate(&platform, &config).await?;
    if args.json {
        println!("{}", serde_json::json!({ "applied": applied }));
    } else if applied.is_empty() {
        println!("the database is up to date");
    } else {
        applied.iter().for_each(|step| println!("applied {step}"));
    }
    Ok(ExitCode::SUCCESS)
}
