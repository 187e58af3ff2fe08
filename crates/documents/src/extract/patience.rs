//! How the reader gives up: by unwinding, from within the library if need be, at places that it passes often.

use std::{cell::Cell, panic::resume_unwind, time::Instant};

/// Why it gave up.
pub(super) enum GaveUp {
    TooSlow,
    TooLarge,
}

thread_local! {
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
    static PARTS: Cell<usize> = const { Cell::new(0) };
}

/// Values of a document, those inside others too. They are what its memory is made of, about a hundred bytes each.
const MAX_PARTS: usize = 4_000_000;

/// Runs `reading` until `until` at most.
pub(super) fn during<T>(until: Instant, reading: impl FnOnce() -> T) -> T {
    UNTIL.set(Some(until));
    PARTS.set(0);
    reading()
}

/// Unwinds if time is up. Not a panic: no message goes to the process's panic hook.
pub(super) fn look_at_the_clock() {
    if UNTIL.get().is_some_and(|until| Instant::now() > until) {
        resume_unwind(Box::new(GaveUp::TooSlow));
    }
}

/// Unwinds if the document has become too much.
pub(super) fn count(parts: usize) {
    PARTS.set(PARTS.get().saturating_add(parts));
    if PARTS.get() > MAX_PARTS {
        resume_unwind(Box::new(GaveUp::TooLarge));
    }
}
