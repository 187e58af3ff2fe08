//! `trace`.

use super::duration;
use crate::{
    Config, Platform,
    story::{self, How, Search},
};
use jiff::{SignedDuration, Timestamp};
use onceward_db::{Db, DbError};
use onceward_envelope::{CorrelationId, TenantId};
use std::{process::ExitCode, time::Duration};

/// SQLSTATE of a function that is not there.
const NO_SUCH_FUNCTION: &str = "42883";

/// Arguments of `trace`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The id that a response's X-Correlation-Id, a log line or a message names
    correlation_id: CorrelationId,
    /// Only this tenant's part of it
    #[arg(long)]
    tenant: Option<TenantId>,
    /// When it began, like 2026-11-03T10:00:00Z or 3h (ago); ids that we make tell it themselves
    #[arg(long, value_name = "TIME", value_parser = point_in_time)]
    since: Option<Timestamp>,
    /// How long after its beginning it is followed in a partition that has no index yet
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration::parse)]
    within: Duration,
    /// Rows of each kind at most
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// How long the search of one partition may take
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    timeout: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Exit code 0: something was found; 1: nothing.
pub(super) async fn run(platform: &Platform, config: &Config, args: Args) -> anyhow::Result<ExitCode> {
    let db = Db::connect(super::database(config)?)?;
    let usual = Search::new(args.correlation_id.as_str());
    let search = Search {
        since: args.since.or(usual.since),
        within: SignedDuration::try_from(args.within)?,
        limit: args.limit as usize,
        timeout: args.timeout.max(Duration::from_millis(1)),
        ..usual
    };
    let whole_bytes = search.whole_bytes;
    let told = story::tell(&db, platform, args.tenant.as_ref(), search, |part| {
        if part.bytes > whole_bytes && part.how != How::Index {
            eprintln!("searching {}", place(part));
        }
    });
    let story = told.await.map_err(with_advice)?;
    if args.json {
        println!("{}", serde_json::to_string(&story)?);
    } else {
        print!("{}", story::in_words(&story));
    }
    let found = !(story.messages.is_empty() && story.answers.is_empty());
    Ok(if found { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn place(part: &story::Part) -> String {
    let size = format!("partition {} of the log, {} MB", part.epoch, part.bytes >> 20);
    match part.how {
        How::Between(from, to) => format!("{size}, from {from} to {to}"),
        _ => format!("the whole of {size}; --since narrows it"),
    }
}

fn with_advice(error: DbError) -> anyhow::Error {
    let old = error.sql_state().is_some_and(|state| state.code() == NO_SUCH_FUNCTION);
    if old {
        return anyhow::anyhow!("the database is older than this program ({error}); run `onceward migrate`");
    }
    error.into()
}

/// A time, or how long ago it was.
fn point_in_time(text: &str) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse() {
        return Ok(at);
    }
    let ago = duration::parse(text).map_err(|_| "give a time like 2026-11-03T10:00:00Z, or how long ago, like 3h")?;
    Timestamp::now().checked_sub(ago).map_err(|error| error.to_string())
}
