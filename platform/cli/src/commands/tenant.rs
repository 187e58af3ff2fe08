//! `tenant add|list`.

use super::operator::{self, OperatorArgs};
use crate::store;
use crate::table::{TextTable, WidthArgs, fixed, text};
use onceward::Config;
use onceward_audit::{self as audit, Entry};
use onceward_db::{Db, Scope};
use onceward_envelope::TenantId;
use onceward_message_log::triage::Operator;
use serde_json::{Map, json};
use std::process::ExitCode;

/// Commands about tenants.
#[derive(Debug, clap::Subcommand)]
pub enum TenantCommand {
    /// Add a tenant
    Add {
        /// 1 to 64 letters, digits, "-" or "_"
        id: TenantId,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// List the tenants
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        width: WidthArgs,
    },
}

pub(super) async fn run(config: &Config, command: TenantCommand) -> anyhow::Result<ExitCode> {
    let db = Db::connect(super::database(config)?)?;
    match command {
        TenantCommand::Add { id, operator } => {
            match add_as(&db, &id, &operator.operator("the tenant was added")).await? {
                true => println!("added {id}"),
                false => println!("{id} already exists"),
            }
        }
        TenantCommand::List { json, width } => list(&db, json, width).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(db: &Db, as_json: bool, width: WidthArgs) -> anyhow::Result<()> {
    let rows = db.connection().await?.query(store::TENANTS, &[]).await?;
    let mut table = TextTable::new(&[text("tenant"), fixed("state")]);
    for row in rows {
        let (id, active): (String, bool) = (row.get(0), row.get(1));
        match as_json {
            true => println!("{}", json!({"id": id, "active": active})),
            false => table.row([id.as_str(), if active { "active" } else { "inactive" }]),
        }
    }
    if !as_json {
        table.print(width, "there are no tenants; add one with `onceward tenant add`");
    }
    Ok(())
}

/// Adds a tenant on behalf of the account that runs this program. Returns `false` if it already exists.
pub(super) async fn add(db: &Db, id: &TenantId) -> anyhow::Result<bool> {
    add_as(db, id, &operator::account("`onceward up` adds a tenant for experiments")).await
}

/// Adds a tenant and records that in its audit chain. Returns `false` if it already exists.
async fn add_as(db: &Db, id: &TenantId, operator: &Operator) -> anyhow::Result<bool> {
    let mut tx = db.begin(Scope::for_tenant(id.clone())).await?;
    let added: bool = tx.query_one(store::ADD_TENANT, &[&id.as_str()]).await?.get(0);
    if !added {
        tx.rollback().await?;
        return Ok(false);
    }
    audit::record_action(&mut tx, operator, Some(id), Entry::new("tenant_added").object("tenant", id), Map::new())?;
    tx.commit().await?;
    Ok(true)
}
