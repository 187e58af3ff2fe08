//! `dlq export`.

use super::{
    EXIT_NOTHING_TO_DO, exit_with,
    select::{DeadLetterFilters, StatusArg},
};
use anyhow::Context;
use onceward_db::Db;
use onceward_message_log::triage;
use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Dead letters held in memory at once; each may be as large as a message.
const PAGE: u32 = 100;
/// A progress line is printed after this many letters.
const PROGRESS_EVERY: usize = 1_000;

/// Arguments of `dlq export`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    filters: DeadLetterFilters,
    /// Only dead letters with this status
    #[arg(long, value_enum, default_value = "dead")]
    status: StatusArg,
    /// The file to write; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

pub(super) async fn run(db: &Db, args: Args) -> anyhow::Result<ExitCode> {
    let filter = args.filters.with_status(args.status.status());
    let mut out = open_output(&args.out)?;
    let (mut written, mut after) = (0, None);
    loop {
        let page = triage::list(db, &filter, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        let ids: Vec<i64> = page.iter().map(|letter| letter.id).collect();
        for letter in triage::details(db, &ids).await? {
            serde_json::to_writer(&mut out, &letter)?;
            out.write_all(b"\n")?;
            written += 1;
            if written % PROGRESS_EVERY == 0 {
                eprintln!("{written} written");
            }
        }
    }
    out.flush()?;
    if written == 0 {
        return Ok(exit_with(EXIT_NOTHING_TO_DO, "there are no matching dead letters to export"));
    }
    eprintln!("{written} written");
    Ok(ExitCode::SUCCESS)
}

/// Opens the file to write to; `-` is standard output.
pub(in crate::commands) fn open_output(path: &Path) -> anyhow::Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufWriter::new(std::io::stdout())));
    }
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Box::new(BufWriter::new(file)))
}
