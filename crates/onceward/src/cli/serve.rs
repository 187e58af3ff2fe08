//! `serve` and `migrate`.

use crate::{
    Config, Platform,
    runtime::{Role, Running},
};
use anyhow::Context;
use std::process::ExitCode;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Arguments of `serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What this process does; may be given more than once
    #[arg(long = "role", value_enum, default_value = "all")]
    roles: Vec<Role>,
    /// Where it listens; overrides http.listen, or http.metrics_listen without the API
    #[arg(long)]
    listen: Option<String>,
    /// Apply migrations before serving
    #[arg(long)]
    migrate: bool,
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
        config.auth.mode == crate::config::AuthKind::Jwks || !config.auth.secret.is_empty(),
        "auth.secret is empty; set ONCEWARD_AUTH_SECRET to at least 32 bytes"
    );
    let exporter = super::log(&config)?;
    if args.migrate {
        super::migrate(&platform, &config).await?;
    }
    let serves_http = args.roles.iter().any(|role| matches!(role, Role::Api | Role::All));
    let default = if serves_http { &config.http.listen } else { &config.http.metrics_listen };
    let listener = match args.listen.as_deref().unwrap_or(default) {
        "" => None,
        address => Some(bind(address).await?),
    };
    let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
    let stop = CancellationToken::new();
    let mut running = Running::new(platform, config, stop.clone())?;
    running.start(&args.roles, listener)?;
    tracing::info!(roles = ?args.roles, address = address.map(tracing::field::display), "serving");
    tokio::spawn(async move {
        super::stop_signal().await;
        stop.cancel();
    });
    running.finished().await;
    exporter.flush();
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn bind(address: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; choose another with --listen"))
}

pub(super) async fn migrate(platform: Platform, config: Config, args: MigrateArgs) -> anyhow::Result<ExitCode> {
    super::database(&config)?;
    let applied = super::migrate(&platform, &config).await?;
    if args.json {
        println!("{}", serde_json::json!({ "applied": applied }));
    } else if applied.is_empty() {
        println!("nothing to do: the database is up to date");
    } else {
        applied.iter().for_each(|step| println!("applied {step}"));
    }
    Ok(ExitCode::SUCCESS)
}
