//! `audit list`.

use super::{exit_with_nothing, selected_tenants};
use crate::{
    commands::duration,
    table::{TextTable, WidthArgs, below, fixed, text},
};
use jiff::{SignedDuration, Timestamp};
use onceward_audit::{self as audit, EntryFilter, RecordedEntry};
use onceward_db::{Db, Scope};
use onceward_envelope::TenantId;
use serde_json::json;
use std::process::ExitCode;

/// Arguments of `audit list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only entries of this tenant
    #[arg(long)]
    tenant: Option<TenantId>,
    /// Only entries about objects of this type, or about one object
    #[arg(long, value_name = "TYPE[/ID]")]
    object: Option<String>,
    /// Only entries about this loan
    #[arg(long, value_name = "ID")]
    loan: Option<String>,
    /// Only entries with this action, such as loan_created
    #[arg(long, value_name = "TYPE")]
    action: Option<String>,
    /// Only entries by this person or service
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Only entries of this request
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Only entries since a time like 2024-03-01T00:00:00Z, or since a duration ago, like 2h
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    since: Option<Timestamp>,
    /// The maximum number of entries per tenant
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Only entries before this one; for the next page
    #[arg(long, value_name = "NUMBER", requires = "tenant")]
    before: Option<i64>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: WidthArgs,
}

impl Args {
    fn filter(&self) -> EntryFilter {
        let object = self.object.as_deref();
        let (object_type, object_id) = object.map(|object| object.split_once('/').unwrap_or((object, ""))).unzip();
        EntryFilter {
            object_type: object_type.map(str::to_owned),
            object_id: object_id.filter(|id| !id.is_empty()).map(str::to_owned),
            loan_id: self.loan.clone(),
            event_type: self.action.clone(),
            actor: self.actor.clone(),
            correlation_id: self.correlation_id.clone(),
            since: self.since,
        }
    }
}

pub(super) async fn run(db: &Db, args: &Args) -> anyhow::Result<ExitCode> {
    let filter = args.filter();
    let mut table = TextTable::new(&[
        fixed("when"),
        text("entry"),
        text("action"),
        text("object"),
        text("by"),
        below("correlation id"),
    ]);
    let mut none = true;
    for tenant in selected_tenants(db, args.tenant.as_ref()).await? {
        let tx = db.begin(Scope::for_tenant(tenant)).await?;
        let entries = audit::list(&tx, &filter, args.before, args.limit).await?;
        tx.rollback().await?;
        none &= entries.is_empty();
        entries.iter().for_each(|entry| print(entry, args.json, &mut table));
        if entries.len() == args.limit as usize
            && let Some(last) = entries.last()
        {
            let RecordedEntry { link, .. } = last;
            eprintln!("there may be more; continue with --tenant {} --before {}", link.tenant_id, link.seq);
        }
    }
    if none {
        return Ok(exit_with_nothing("there are no matching entries"));
    }
    if !args.json {
        table.print(args.width, "");
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints an entry at once as JSON, or adds it as a row to `table`.
fn print(entry: &RecordedEntry, as_json: bool, table: &mut TextTable) {
    let link = &entry.link;
    if as_json {
        let hash = hex::encode(&link.record_hash);
        println!("{}", json!({ "seq": link.seq, "recordHash": hash, "entry": entry.document() }));
        return;
    }
    let object = match (&entry.object_type, &entry.object_id) {
        (None, None) => "-".to_owned(),
        (kind, id) => format!("{}/{}", kind.as_deref().unwrap_or("-"), id.as_deref().unwrap_or("-")),
    };
    table.row([
        entry.occurred_at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        format!("{}/{}", link.tenant_id, link.seq),
        entry.event_type.clone(),
        object,
        entry.actor.clone().unwrap_or_else(|| "-".to_owned()),
        entry.correlation_id.clone(),
    ]);
}

fn parse_since(text: &str) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let ago = duration::parse(text).ok().and_then(|ago| SignedDuration::try_from(ago).ok());
    ago.and_then(|ago| Timestamp::now().checked_sub(ago).ok())
        .ok_or_else(|| "enter a time like 2024-03-01T00:00:00Z, or how long ago, like 30m, 2h or 1d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_time_or_how_long_ago() {
        assert_eq!(parse_since("2024-03-01T00:00:00Z").expect("a time").as_second(), 1_709_251_200);
        let hour_ago = parse_since("1h").expect("a time ago");
        assert!((3_590..=3_610).contains(&hour_ago.duration_until(Timestamp::now()).as_secs()));
        for wrong in ["", "yesterday", "1 h", "2024"] {
            assert!(parse_since(wrong).is_err(), "{wrong}");
        }
    }
}
