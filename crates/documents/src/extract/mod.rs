//! From a file to the text of its pages, whatever the file is.
//!
//! A file is read on a thread of its own, with a stack of its own size: what panics there ends there, and what takes too
//! long is left behind. It gives up by itself soon after, at the next of many places where it looks at the clock; should the
//! reader hang between two of them, its place stays taken, so that hanging readers can never be more than there are places.

mod font;
mod layout;
mod patience;
mod pdf;

use crate::MediaType;
use patience::GaveUp;
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{Semaphore, oneshot};

/// Deep enough for everything that the reader's own bound on nesting lets through.
const STACK_BYTES: usize = 16 * 1024 * 1024;
/// How much longer than its time a reader is waited for, as it gives up by itself.
const GRACE: Duration = Duration::from_secs(2);

/// How much one step may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long it may take.
    pub time: Duration,
    /// How many pages it reads.
    pub pages: u32,
    /// How many pages a document may have.
    pub max_pages: u32,
    /// How many characters it gives.
    pub chars: usize,
    /// What one compressed part may unpack to.
    pub unpacked_bytes: usize,
}

/// What one step has read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// How many pages the document has.
    pub pages: u32,
    /// The text of the pages from the first that was asked for.
    pub texts: Vec<String>,
    /// What could not be read, or was left out.
    pub notes: Vec<String>,
}

/// Why nothing was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The document is to blame, and always will be.
    Document(String),
    /// It took too long, this time.
    TooSlow,
    /// Every place is taken by a reader that hangs.
    NoPlace,
}

/// Reads files, a bounded number at a time.
#[derive(Clone, Debug)]
pub struct Extractor {
    places: Arc<Semaphore>,
}

impl Extractor {
    /// With so many places.
    pub fn new(places: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(places)) }
    }

    /// Reads the pages from `from_page` on.
    pub async fn read(
        &self,
        content: Vec<u8>,
        media_type: MediaType,
        from_page: u32,
        limits: Limits,
    ) -> Result<Step, Unread> {
        let place = self.places.clone().try_acquire_owned().map_err(|_| Unread::NoPlace)?;
        let (tell, told) = oneshot::channel();
        let reader = move || {
            // Nobody listens any more if it took too long.
            let _ = tell.send(read(&content, media_type, from_page, limits));
            drop(place);
        };
        // Not on the runtime's pool: a reader that hangs there would keep the process from ending.
        let thread = std::thread::Builder::new().name("document-reader".into()).stack_size(STACK_BYTES).spawn(reader);
        thread.map_err(|_| Unread::NoPlace)?;
        match tokio::time::timeout(limits.time + GRACE, told).await {
            Ok(Ok(read)) => read,
            Ok(Err(_)) | Err(_) => Err(Unread::TooSlow),
        }
    }
}

/// The same on this thread; it never panics.
pub fn read(content: &[u8], media_type: MediaType, from_page: u32, limits: Limits) -> Result<Step, Unread> {
    let until = Instant::now() + limits.time;
    let reading = AssertUnwindSafe(|| {
        patience::during(until, || match media_type {
            MediaType::Pdf => pdf::read(content, from_page, limits),
            MediaType::PlainText => Ok(plain(content, from_page, limits)),
        })
    });
    catch_unwind(reading).unwrap_or_else(|payload| Err(unwound(payload.as_ref())))
}

fn unwound(payload: &(dyn Any + Send)) -> Unread {
    match payload.downcast_ref() {
        Some(GaveUp::TooSlow) => Unread::TooSlow,
        Some(GaveUp::TooLarge) => Unread::Document("it unpacks to more than a document of its size can hold".into()),
        None => Unread::Document("it is broken in a way that the reader did not expect".into()),
    }
}

/// A form feed ends a page.
fn plain(content: &[u8], from_page: u32, limits: Limits) -> Step {
    let text = String::from_utf8_lossy(content);
    let text = text.trim_start_matches('\u{feff}');
    let pages: Vec<&str> = text.split('\u{c}').take(limits.max_pages as usize).collect();
    let mut budget = Budget::new(limits.chars);
    let wanted = pages.iter().skip(from_page.saturating_sub(1) as usize).take(limits.pages as usize);
    let texts = wanted.map(|page| budget.take(page)).collect();
    let mut notes = budget.notes();
    if text.split('\u{c}').nth(pages.len()).is_some() {
        notes.push(format!("only the first {} pages were read", pages.len()));
    }
    Step { pages: u32::try_from(pages.len()).unwrap_or(u32::MAX), texts, notes }
}

/// How many characters may still be given.
struct Budget {
    left: usize,
    cut: bool,
}

impl Budget {
    fn new(chars: usize) -> Self {
        Self { left: chars, cut: false }
    }

    fn take(&mut self, text: &str) -> String {
        let end = text.char_indices().nth(self.left).map(|(at, _)| at);
        self.cut |= end.is_some();
        let taken = &text[..end.unwrap_or(text.len())];
        self.left -= taken.chars().count();
        taken.to_owned()
    }

    fn notes(&self) -> Vec<String> {
        if self.cut { vec![CUT.to_owned()] } else { Vec::new() }
    }
}

/// Said once for a document whose text is longer than is kept.
pub(crate) const CUT: &str = "the text is longer than is kept; the rest was left out";
