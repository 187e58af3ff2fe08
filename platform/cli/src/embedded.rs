//! The private PostgreSQL of `onceward up`, and the secrets stored with it.

use crate::store;
use anyhow::Context;
use onceward_db::{DbConfig, migrate};
use onceward_local_postgres::{Cluster, ClusterOptions, Programs};
use std::{
    fs,
    io::{ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

const DATABASE: &str = "onceward";
/// A shorter secret was truncated while it was written, or is not ours.
const SECRET_MIN_BYTES: usize = 32;

/// Starts the cluster in `data`, creating it the first time. Returns when it accepts connections.
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

/// Returns the URL of our database in the cluster that another process is running in `data`, if any.
pub fn running_url(data: &Path) -> Option<String> {
    onceward_local_postgres::running_url(data, DATABASE)
}

/// Returns the URL of our database in the cluster.
pub fn database_url(cluster: &Cluster) -> String {
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

/// Returns the secret that signs local tokens, creating it the first time. Its file is readable only by its owner, and
/// either complete or absent, even if the disk was full. Fails if the file holds no usable secret or cannot be written.
pub fn load_or_create_secret(data: &Path) -> anyhow::Result<String> {
    let path = data.join("secret");
    match fs::read_to_string(&path) {
        Ok(secret) if secret.trim().len() >= SECRET_MIN_BYTES => return Ok(secret.trim().to_owned()),
        Ok(secret) => anyhow::bail!(
            "{} holds {} bytes instead of a secret of at least {SECRET_MIN_BYTES}. Remove the file: the next start creates a \
             new secret, and tokens signed with the previous one become invalid.",
            path.display(),
            secret.trim().len()
        ),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(_) if data.exists() && !data.is_dir() => {
            anyhow::bail!("{} is a file, not a folder. Choose a folder with --data.", data.display())
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
    let created = fs::DirBuilder::new().recursive(true).mode(0o755).create(data);
    created.with_context(|| format!("cannot create {}; choose another folder with --data", data.display()))?;
    let temporary = data.join(format!("secret.{}", std::process::id()));
    let written = write_secret(&temporary, &path);
    // Either it is now linked under its final name, or it is incomplete.
    let _ = fs::remove_file(&temporary);
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a new secret next to its path and links it there. Keeps the secret of a process that was faster.
fn write_secret(temporary: &Path, path: &Path) -> std::io::Result<String> {
    let secret = hex::encode(rand::random::<[u8; 32]>());
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(temporary)?;
    writeln!(file, "{secret}")?;
    file.sync_all()?;
    match fs::hard_link(temporary, path) {
        Ok(()) => Ok(secret),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            fs::read_to_string(path).map(|secret| secret.trim().to_owned())
        }
        // The file system does not support links.
        Err(_) => fs::rename(temporary, path).map(|()| secret),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("ow-secret-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn a_secret_is_created_once_and_leaves_no_temporary_file() {
        let data = folder("once");
        let first = load_or_create_secret(&data).unwrap();
        assert_eq!(first.len(), 64);
        assert_eq!(load_or_create_secret(&data).unwrap(), first);
        assert_eq!(fs::read_dir(&data).unwrap().count(), 1);
        fs::remove_dir_all(data).unwrap();
    }

    #[test]
    fn a_truncated_secret_is_reported_with_its_remedy() {
        let data = folder("short");
        fs::create_dir_all(&data).unwrap();
        fs::write(data.join("secret"), "").unwrap();
        let error = load_or_create_secret(&data).unwrap_err().to_string();
        assert!(error.contains(&data.join("secret").display().to_string()) && error.contains("Remove"), "{error}");
        fs::remove_dir_all(data).unwrap();
    }
}
