//! Reads returned mail from a maildir, into which the mail server of the return paths delivers.
//!
//! A message is moved from `new/` to `cur/` after its commit. A process that dies in between reads it again, and the report is
//! recognised by its hash. Several processes may read the same maildir.

use super::{IntakeResult, ReportReader, intake};
use crate::state::CrmState;
use onceward::{TaskContext, TaskError};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{fs, io::AsyncReadExt};

pub(super) const SOURCE: &str = "maildir";
const POLL: Duration = Duration::from_secs(2);
/// Messages per poll.
const BATCH_SIZE: usize = 200;
/// A larger message is no report.
const MESSAGE_BYTES_MAX: u64 = 64 * 1024 * 1024;
const CHUNK_BYTES: usize = 64 * 1024;

/// Reads the maildir of the settings until the process stops. Ends at once without one.
pub(crate) async fn read_maildir(context: TaskContext, state: Arc<CrmState>) -> Result<(), TaskError> {
    if state.settings.bounce_maildir.is_empty() {
        return Ok(());
    }
    let maildir = PathBuf::from(&state.settings.bounce_maildir);
    for folder in ["new", "cur", "tmp"] {
        fs::create_dir_all(maildir.join(folder)).await?;
    }
    let mut poll = tokio::time::interval(POLL);
    loop {
        tokio::select! {
            () = context.stop.cancelled() => return Ok(()),
            _ = poll.tick() => {}
        }
        for file in waiting_files(&maildir.join("new")).await? {
            if context.stop.is_cancelled() {
                return Ok(());
            }
            if let Err(error) = read_file(&context, &state, &maildir, &file).await {
                tracing::warn!(%error, "a returned mail could not be recorded; it stays in the maildir and is read again");
            }
        }
    }
}

/// Returns the oldest files. The names of a maildir begin with the time of arrival.
async fn waiting_files(new: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries = fs::read_dir(new).await?;
    let mut files = std::collections::BTreeSet::new();
    while let Some(entry) = entries.next_entry().await? {
        files.insert(entry.path());
        if files.len() > BATCH_SIZE {
            files.pop_last();
        }
    }
    Ok(files.into_iter().collect())
}

async fn read_file(context: &TaskContext, state: &CrmState, maildir: &Path, file: &Path) -> Result<(), TaskError> {
    let mut reader = ReportReader::default();
    // Another process may have moved it in the meantime.
    let Some(mut opened) = gone_is_none(fs::File::open(file).await)? else { return Ok(()) };
    if opened.metadata().await?.len() <= MESSAGE_BYTES_MAX {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match opened.read(&mut chunk).await? {
                0 => break,
                length => reader.push(&chunk[..length]),
            }
        }
        let result = intake(state, &context.db, SOURCE, &reader.finish(), None).await?;
        tracing::debug!(recorded = result == IntakeResult::Recorded, "read a returned mail from the maildir");
    }
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let read = maildir.join("cur").join(format!("{}:2,S", name.split(':').next().unwrap_or_default()));
    gone_is_none(fs::rename(file, read).await)?;
    Ok(())
}

fn gone_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
