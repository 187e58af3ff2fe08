//! `audit list`.

use super::{chosen, nothing};
use crate::cli::duration;
use jiff::{SignedDuration, Timestamp};
use onceward_audit::{self as audit, Filter, Recorded};
use onceward_db::{Db, Scope};
use onceward_envelope::TenantId;
use serde_json::json;
use std::process::ExitCode;

/// Arguments of `audit list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this tenant's
    #[arg(long)]
    tenant: Option<TenantId>,
    /// About objects of this type, or about one of them
    #[arg(long, value_name = "TYPE[/ID]")]
    object: Option<String>,
    /// About this loan
    #[arg(long, value_name = "ID")]
    loan: Option<String>,
    /// What was done, as entries call it: loan_created
    #[arg(long, value_name = "TYPE")]
    action: Option<String>,
    /// By this person or service
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// In this request
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Not earlier: a time like 2024-03-01T00:00:00Z, or how long ago, like 2h
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
    /// How many of each tenant at most
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Only entries before this one, for the next page
    #[arg(long, value_name = "NUMBER", requires = "tenant")]
    before: Option<i64>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl Args {
    fn filter(&self) -> Filter {
        let object = self.object.as_deref();
        let (object_type, object_id) = object.map(|object| object.split_once('/').unwrap_or((object, ""))).unzip();
        Filter {
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
    let mut none = true;
    for tenant in chosen(db, args.tenant.as_ref()).await? {
        let tx = db.begin(Scope::tenant(tenant)).await?;
        let entries = audit::list(&tx, &filter, args.before, args.limit).await?;
        tx.rollback().await?;
        none &= entries.is_empty();
        entries.iter().for_each(|entry| print(entry, args.json));
        if entries.len() == args.limit as usize
            && let Some(last) = entries.last()
        {
            let Recorded { link, .. } = last;
            eprintln!("there may be more: --tenant {} --before {}", link.tenant_id, link.seq);
        }
    }
    Ok(if none { nothing("there is no such entry") } else { ExitCode::SUCCESS })
}

fn print(entry: &Recorded, as_json: bool) {
    let link = &entry.link;
    if as_json {
        let hash = hex::encode(&link.record_hash);
        println!("{}", json!({ "seq": link.seq, "recordHash": hash, "entry": entry.document() }));
        return;
    }
    let text = |text: &Option<String>| text.as_deref().unwrap_or("-").escape_debug().to_string();
    println!(
        "{}  {}/{}  {}  {}/{}  by {}  in {}",
        entry.occurred_at,
        link.tenant_id,
        link.seq,
        entry.event_type.escape_debug(),
        text(&entry.object_type),
        text(&entry.object_id),
        text(&entry.actor),
        entry.correlation_id.escape_debug()
    );
}

fn since(text: &str) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let ago = duration::parse(text).ok().and_then(|ago| SignedDuration::try_from(ago).ok());
    ago.and_then(|ago| Timestamp::now().checked_sub(ago).ok())
        .ok_or_else(|| "give a time like 2024-03-01T00:00:00Z, or how long ago, like 30m, 2h or 1d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_time_or_how_long_ago() {
        assert_eq!(since("2024-03-01T00:00:00Z").expect("a time").as_second(), 1_709_251_200);
        let hour_ago = since("1h").expect("a time ago");
        assert!((3_590..=3_610).contains(&hour_ago.duration_until(Timestamp::now()).as_secs()));
        for wrong in ["", "yesterday", "1 h", "2024"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }
}
