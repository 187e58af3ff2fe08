//! `tenant add|list`.

use crate::{Config, store};
use onceward_db::{Db, DbError};
use onceward_envelope::TenantId;
use std::process::ExitCode;

/// What can be done with tenants.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Add a tenant
    Add {
        /// 1 to 64 letters, digits, "-" or "_"
        id: TenantId,
    },
    /// List the tenants
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(super) async fn run(config: &Config, command: Command) -> anyhow::Result<ExitCode> {
    let db = Db::connect(super::database(config)?)?;
    match command {
        Command::Add { id } if add(&db, &id).await? => println!("added {id}"),
        Command::Add { id } => println!("{id} is there already"),
        Command::List { json } => {
            let rows = db.connection().await?.query(store::TENANTS, &[]).await?;
            for row in rows {
                let (id, active): (String, bool) = (row.get(0), row.get(1));
                if json {
                    println!("{}", serde_json::json!({"id": id, "active": active}));
                } else {
                    println!("{id}{}", if active { "" } else { " (inactive)" });
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn add(db: &Db, id: &TenantId) -> Result<bool, DbError> {
    let rows = db.connection().await?.query(store::ADD_TENANT, &[&id.as_str()]).await?;
    Ok(rows[0].get(0))
}
