//! `document.process.v1`: reads some pages, records them, and asks for the next.

use crate::{
    Settings, commands,
    events::DocumentProcess,
    extract::{Extractor, Limits, Unread},
    store,
    topology::PROCESS,
};
use onceward::{Consumer, Failure, Handler, Received, RetryPolicy, Tx};
use std::time::{Duration, Instant};

/// A document that is too slow so often is given up; before, the machine may have been busy.
const SLOW_ATTEMPTS: u32 = 3;
const ATTEMPTS: u32 = 5;
/// Beside reading, a step takes statements.
const BESIDE_READING: Duration = Duration::from_secs(15);
const NO_PLACE_PAUSE: Duration = Duration::from_secs(30);

pub(crate) fn consumer(settings: &Settings) -> Consumer {
    let time = Duration::from_millis(settings.step_timeout_ms);
    let limits = Limits {
        time,
        pages: settings.pages_per_step.max(1),
        max_pages: settings.max_pages,
        chars: usize::try_from(settings.max_text_chars).unwrap_or(usize::MAX),
        unpacked_bytes: settings.max_unpacked_bytes,
    };
    // As many again as may hang before documents have to wait.
    let extractor = Extractor::new(settings.concurrency.max(1) * 2);
    Consumer::transactional("process-document", PROCESS)
        .concurrency(settings.concurrency)
        .prefetch(1)
        .timeout(time + BESIDE_READING)
        .retry(RetryPolicy::exponential(ATTEMPTS))
        .on(OnProcess { extractor, limits })
}

struct OnProcess {
    extractor: Extractor,
    limits: Limits,
}

impl Handler for OnProcess {
    type Event = DocumentProcess;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, DocumentProcess>) -> Result<(), Failure> {
        let process = &received.event;
        let DocumentProcess { document_id, analysis, from_page } = *process;
        let missing = || Failure::permanent("there is no such document or analysis");
        let place = store::lock_analysis(tx, document_id, analysis).await?.ok_or_else(missing)?;
        if !place.under_way || u32::try_from(place.pages_done).unwrap_or(0) + 1 != from_page {
            return Ok(());
        }
        let (media_type, content) = store::content(tx, document_id).await?.ok_or_else(missing)?;
        let kept = usize::try_from(place.text_chars).unwrap_or(usize::MAX);
        let limits = Limits { chars: self.limits.chars.saturating_sub(kept), ..self.limits };
        let started = Instant::now();
        let read = self.extractor.read(content, media_type, from_page, limits).await;
        metrics::histogram!("documents_step_seconds").record(started.elapsed().as_secs_f64());
        let read = match read {
            Ok(step) => Ok(step),
            Err(Unread::Document(reason)) => Err(reason),
            Err(Unread::TooSlow) if received.attempt < SLOW_ATTEMPTS => {
                return Err(Failure::transient("reading the document took too long"));
            }
            Err(Unread::TooSlow) => Err(format!("reading it took longer than {:?} each time", self.limits.time)),
            Err(Unread::NoPlace) => {
                tracing::error!("document readers hang and take up every place: restart this instance");
                return Err(Failure::snooze(NO_PLACE_PAUSE, "every document reader hangs"));
            }
        };
        Ok(commands::read_step(tx, process, &place, read).await?)
    }
}
