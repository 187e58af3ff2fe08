//! Consumes `document.process.v1`: reads the next pages, stores their text, and requests the pages after them.

use crate::{
    Settings, commands,
    events::DocumentProcess,
    extract::{ExtractError, ExtractLimits, Extractor},
    store,
    topology::PROCESS_QUEUE,
};
use onceward::{Consumer, Failure, Handler, Received, RetryPolicy, Tx};
use std::time::{Duration, Instant};

/// The analysis fails after this many timeouts; fewer may only mean that the machine was busy.
const MAX_TIMEOUTS: u32 = 3;
const MAX_ATTEMPTS: u32 = 5;
/// Time for a step's SQL statements, in addition to reading.
const SQL_TIME: Duration = Duration::from_secs(15);
const NO_READER_PAUSE: Duration = Duration::from_secs(30);

pub(crate) fn consumer(settings: &Settings) -> Consumer {
    let time = Duration::from_millis(settings.step_timeout_ms);
    let limits = ExtractLimits {
        time,
        pages: settings.pages_per_step.max(1),
        max_pages: settings.max_pages,
        chars: usize::try_from(settings.max_text_chars).unwrap_or(usize::MAX),
        unpacked_bytes: settings.max_unpacked_bytes,
    };
    // Twice the concurrency: as many readers again may hang before documents have to wait.
    let extractor = Extractor::new(settings.concurrency.max(1) * 2);
    Consumer::transactional("process-document", PROCESS_QUEUE)
        .concurrency(settings.concurrency)
        .prefetch(1)
        .timeout(time + SQL_TIME)
        .retry(RetryPolicy::exponential(MAX_ATTEMPTS))
        .on(ProcessHandler { extractor, limits })
        .into()
}

struct ProcessHandler {
    extractor: Extractor,
    limits: ExtractLimits,
}

impl Handler for ProcessHandler {
    type Event = DocumentProcess;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, DocumentProcess>) -> Result<(), Failure> {
        let process = &received.event;
        let DocumentProcess { document_id, analysis, from_page } = *process;
        let missing = || Failure::permanent("the document or the analysis does not exist");
        let progress = store::lock_analysis(tx, document_id, analysis).await?.ok_or_else(missing)?;
        if !progress.in_progress || u32::try_from(progress.pages_done).unwrap_or(0) + 1 != from_page {
            return Ok(());
        }
        let (media_type, content) = store::content(tx, document_id).await?.ok_or_else(missing)?;
        let stored_chars = usize::try_from(progress.text_chars).unwrap_or(usize::MAX);
        let limits = ExtractLimits { chars: self.limits.chars.saturating_sub(stored_chars), ..self.limits };
        let started = Instant::now();
        let result = self.extractor.read(content, media_type, from_page, limits).await;
        metrics::histogram!("documents_step_seconds").record(started.elapsed().as_secs_f64());
        let result = match result {
            Ok(pages) => Ok(pages),
            Err(ExtractError::Unreadable(reason)) => Err(reason),
            Err(ExtractError::TimedOut) if received.attempt < MAX_TIMEOUTS => {
                return Err(Failure::transient("reading the document took too long"));
            }
            Err(ExtractError::TimedOut) => {
                Err(format!("reading it took longer than {:?} in every attempt", self.limits.time))
            }
            Err(ExtractError::NoReader) => {
                tracing::error!("every document reader hangs; restart this instance");
                return Err(Failure::snooze(NO_READER_PAUSE, "every document reader hangs"));
            }
        };
        Ok(commands::record_step(tx, process, &progress, result).await?)
    }
}
