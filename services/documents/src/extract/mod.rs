//! Extracts the text of a file's pages, whatever the file contains.
//!
//! Every file is read on its own thread with its own stack size. A panic ends only that thread, and the caller stops
//! waiting when the time limit has passed. The reader checks its deadline often and aborts soon after. If it hangs
//! between two checks, it keeps its permit, so that the number of hanging readers never exceeds the number of permits.

mod abort;
mod font;
mod layout;
mod pdf;

use crate::MediaType;
use abort::Aborted;
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{Semaphore, oneshot};

/// Enough stack for the deepest nesting that the PDF library accepts.
const STACK_BYTES: usize = 16 * 1024 * 1024;
/// How long the caller waits beyond the time limit for the reader to abort.
const GRACE: Duration = Duration::from_secs(2);

/// The limits of one step.
#[derive(Clone, Copy, Debug)]
pub struct ExtractLimits {
    /// The time limit of the step.
    pub time: Duration,
    /// The number of pages that the step reads.
    pub pages: u32,
    /// The number of pages that a document may have.
    pub max_pages: u32,
    /// The number of characters that the step returns at most.
    pub chars: usize,
    /// The number of bytes that one compressed stream may unpack to.
    pub unpacked_bytes: usize,
}

/// The result of one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExtractedPages {
    /// The number of pages of the document.
    pub pages: u32,
    /// The text of the pages that were read, from the first requested page on.
    pub texts: Vec<String>,
    /// What could not be read, or was left out.
    pub notes: Vec<String>,
}

/// Why no page was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtractError {
    /// The document cannot be read. Trying again does not help.
    Unreadable(String),
    /// Reading took longer than the time limit. Trying again may help.
    TimedOut,
    /// Every permit is held by a reader that hangs.
    NoReader,
}

/// Reads files on threads, a bounded number at a time.
#[derive(Clone, Debug)]
pub struct Extractor {
    permits: Arc<Semaphore>,
}

impl Extractor {
    /// Creates an extractor for at most `readers` concurrent readers.
    pub fn new(readers: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(readers)) }
    }

    /// Reads up to `limits.pages` pages, starting at `from_page`.
    pub async fn read(
        &self,
        content: Vec<u8>,
        media_type: MediaType,
        from_page: u32,
        limits: ExtractLimits,
    ) -> Result<ExtractedPages, ExtractError> {
        let permit = self.permits.clone().try_acquire_owned().map_err(|_| ExtractError::NoReader)?;
        let (sender, receiver) = oneshot::channel();
        let reader = move || {
            // Nobody receives it if the time limit has passed.
            let _ = sender.send(read(&content, media_type, from_page, limits));
            drop(permit);
        };
        // Not on the runtime's blocking pool: a reader that hangs there would keep the process from exiting.
        let thread = std::thread::Builder::new().name("document-reader".into()).stack_size(STACK_BYTES).spawn(reader);
        thread.map_err(|_| ExtractError::NoReader)?;
        match tokio::time::timeout(limits.time + GRACE, receiver).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => Err(ExtractError::TimedOut),
        }
    }
}

/// Reads pages as [`Extractor::read`] does, on the calling thread. Never panics.
pub fn read(
    content: &[u8],
    media_type: MediaType,
    from_page: u32,
    limits: ExtractLimits,
) -> Result<ExtractedPages, ExtractError> {
    let deadline = Instant::now() + limits.time;
    let reading = AssertUnwindSafe(|| {
        abort::with_deadline(deadline, || match media_type {
            MediaType::Pdf => pdf::read(content, from_page, limits),
            MediaType::PlainText => Ok(read_plain_text(content, from_page, limits)),
        })
    });
    catch_unwind(reading).unwrap_or_else(|payload| Err(error_from_unwind(payload.as_ref())))
}

fn error_from_unwind(payload: &(dyn Any + Send)) -> ExtractError {
    match payload.downcast_ref() {
        Some(Aborted::DeadlinePassed) => ExtractError::TimedOut,
        Some(Aborted::TooManyObjects) => {
            ExtractError::Unreadable("it contains more objects than a document may have".into())
        }
        None => ExtractError::Unreadable("it is damaged in a way that the reader does not support".into()),
    }
}

/// Splits plain text into pages at form feeds.
fn read_plain_text(content: &[u8], from_page: u32, limits: ExtractLimits) -> ExtractedPages {
    let text = String::from_utf8_lossy(content);
    let text = text.trim_start_matches('\u{feff}');
    let pages: Vec<&str> = text.split('\u{c}').take(limits.max_pages as usize).collect();
    let mut budget = CharBudget::new(limits.chars);
    let wanted = pages.iter().skip(from_page.saturating_sub(1) as usize).take(limits.pages as usize);
    let texts = wanted.map(|page| budget.take(page)).collect();
    let mut notes = budget.notes();
    if text.split('\u{c}').nth(pages.len()).is_some() {
        notes.push(format!("only the first {} pages were read", pages.len()));
    }
    ExtractedPages { pages: u32::try_from(pages.len()).unwrap_or(u32::MAX), texts, notes }
}

/// The number of characters that a step may still return.
struct CharBudget {
    left: usize,
    cut: bool,
}

impl CharBudget {
    fn new(chars: usize) -> Self {
        Self { left: chars, cut: false }
    }

    fn take(&mut self, text: &str) -> String {
        let end = text.char_indices().nth(self.left).map(|(index, _)| index);
        self.cut |= end.is_some();
        let taken = &text[..end.unwrap_or(text.len())];
        self.left -= taken.chars().count();
        taken.to_owned()
    }

    fn notes(&self) -> Vec<String> {
        if self.cut { vec![TEXT_CUT.to_owned()] } else { Vec::new() }
    }
}

/// The note on a document whose text exceeds the limit, added once per analysis.
pub(crate) const TEXT_CUT: &str = "the text exceeds the limit; the rest was left out";
