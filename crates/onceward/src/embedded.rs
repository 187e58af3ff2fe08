//! The private PostgreSQL of `onceward up`, and the secrets beside it.

use crate::store;
use anyhow::Context;
use onceward_db::{DbConfig, migrate};
use onceward_local_postgres::{Cluster, ClusterOptions, Programs};
use std::{
    fs,
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

const DATABASE: &str = "onceward";

/// Starts the cluster in `data`, making it at first. Blocks until it accepts connections.
pub async fn start(data: &Path) -> anyhow::Result<Cluster> {
    let data = std::path::absolute(data)?;
    let cluster = tokio::task::spawn_blocking(move || {
        let programs = Programs::find()?;
        Cluster::start(&programs, &data, ClusterOptions::default())
    })
    .await??;
    ensure_database(&cluster.url("postgres")).await?;
    Ok(cluster)
}

/// The URL of our database in the cluster.
pub fn url(cluster: &Cluster) -> String {
    cluster.url(DATABASE)
}

async fn ensure_database(maintenance_url: &str) -> anyhow::Result<()> {
    let client = migrate::owner(&DbConfig::new(maintenance_url)).await?;
    let known = client.query_opt(store::DATABASE_EXISTS, &[&DATABASE]).await?;
    if known.is_none() {
        client.batch_execute(&format!("CREATE DATABASE {DATABASE}")).await?;
    }
    Ok(())
}

/// The secret that signs local tokens: made once, readable by its owner only.
pub fn secret(data: &Path) -> anyhow::Result<String> {
    let path: PathBuf = data.join("secret");
    if let Ok(secret) = fs::read_to_string(&path) {
        return Ok(secret.trim().to_owned());
    }
    fs::DirBuilder::new().recursive(true).mode(0o755).create(data)?;
    let secret = hex::encode(rand::random::<[u8; 32]>());
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    writeln!(file, "{secret}")?;
    Ok(secret)
}
