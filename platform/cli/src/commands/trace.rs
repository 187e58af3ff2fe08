//! `trace`.

use super::duration;
use crate::story::{self, SearchMethod, StorySearch};
use crate::table::{WidthArgs, paragraph};
use jiff::{SignedDuration, Timestamp};
use onceward::{Config, Platform};
use onceward_db::{Db, DbError};
use onceward_envelope::{CorrelationId, TenantId};
use std::{process::ExitCode, time::Duration};

/// SQLSTATE of a missing function.
const NO_SUCH_FUNCTION: &str = "42883";

/// How far the rest of a wrapped line is indented.
const CONTINUATION_INDENT: usize = 6;

/// Arguments of `trace`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The correlation id, from a response's X-Correlation-Id header, a log line or a message
    correlation_id: CorrelationId,
    /// Show only this tenant's part
    #[arg(long)]
    tenant: Option<TenantId>,
    /// When the request was made, like 2026-11-03T10:00:00Z or 3h (ago). Generated ids contain this time
    #[arg(long, value_name = "TIME", value_parser = point_in_time)]
    since: Option<Timestamp>,
    /// How long after that time to search a partition that has no index yet
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration::parse)]
    within: Duration,
    /// The maximum number of rows of each kind
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// How long the search of one partition may take
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    timeout: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: WidthArgs,
}

/// Returns exit code 0 if anything was found, 1 if not.
pub(super) async fn run(platform: &Platform, config: &Config, args: Args) -> anyhow::Result<ExitCode> {
    let db = Db::connect(super::database(config)?)?;
    let defaults = StorySearch::new(args.correlation_id.as_str());
    let search = StorySearch {
        since: args.since.or(defaults.since),
        within: SignedDuration::try_from(args.within)?,
        limit: args.limit as usize,
        timeout: args.timeout.max(Duration::from_millis(1)),
        ..defaults
    };
    let whole_bytes = search.whole_bytes;
    let loading = story::load(&db, platform, args.tenant.as_ref(), search, |part| {
        if part.bytes > whole_bytes && part.method != SearchMethod::Index {
            eprintln!("searching {}", describe_partition(part));
        }
    });
    let story = loading.await.map_err(with_advice)?;
    if args.json {
        println!("{}", serde_json::to_string(&story)?);
    } else {
        print!("{}", wrap_lines(&story::render(&story), args.width.columns()));
    }
    let found = !(story.messages.is_empty() && story.responses.is_empty());
    Ok(if found { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the lines of a story, none longer than `width`. Wrapped lines are indented, to keep the tree visible.
fn wrap_lines(story: &str, width: Option<usize>) -> String {
    let lines = story.lines().map(|line| {
        let text = line.trim_start_matches([' ', '└']);
        let (branch, text) = line.split_at(line.len() - text.len());
        paragraph(branch, text, branch.chars().count() + CONTINUATION_INDENT, width)
    });
    lines.collect()
}

fn describe_partition(part: &story::SearchedPartition) -> String {
    let size = format!("partition {} of the log, {} MB", part.epoch, part.bytes >> 20);
    match part.method {
        SearchMethod::Between(from, to) => format!("{size}, from {from} to {to}"),
        _ => format!("all of {size}; narrow the search with --since"),
    }
}

fn with_advice(error: DbError) -> anyhow::Error {
    let old = error.sql_state().is_some_and(|state| state.code() == NO_SUCH_FUNCTION);
    if old {
        return anyhow::anyhow!("the database is older than this program ({error}); run `onceward migrate`");
    }
    error.into()
}

/// Parses a time, or how long ago it was.
fn point_in_time(text: &str) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse() {
        return Ok(at);
    }
    let ago = duration::parse(text).map_err(|_| "enter a time like 2026-11-03T10:00:00Z, or how long ago, like 3h")?;
    Timestamp::now().checked_sub(ago).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORY: &str = "2026-11-17T05:33:00Z  order.placed.v1  019a0000-0000-7000-8000-000000000001  tenant acme
  └ 2026-11-17T05:33:01Z  stock.reserved.v1  019a0000-0000-7000-8000-000000000002  tenant acme
      queue orders.confirm: failed 1 times since 2026-11-17T05:33:02Z: no stock, next attempt 2026-11-17T06:33:02Z
";

    #[test]
    fn a_story_fits_the_terminal_and_keeps_its_tree() {
        assert_eq!(wrap_lines(STORY, None), STORY);
        let narrow = wrap_lines(STORY, Some(60));
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
        assert!(narrow.contains("\n  └ 2026-11-17T05:33:01Z  stock.reserved.v1\n          019a"), "{narrow}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&narrow), words(STORY), "nothing is left out");
    }
}
