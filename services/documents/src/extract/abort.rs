//! Aborts reading at a deadline or an object limit, by unwinding: the PDF library calls back often, but cannot be
//! cancelled.

use std::{cell::Cell, panic::resume_unwind, time::Instant};

/// Why reading was aborted; the payload of the unwinding.
pub(super) enum Aborted {
    DeadlinePassed,
    TooManyObjects,
}

thread_local! {
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
    static OBJECTS: Cell<usize> = const { Cell::new(0) };
}

/// The objects of a document, including nested ones. They make up its memory, about a hundred bytes each.
const MAX_OBJECTS: usize = 4_000_000;

/// Runs `read` with this deadline and no objects counted yet, both for the current thread.
pub(super) fn with_deadline<T>(deadline: Instant, read: impl FnOnce() -> T) -> T {
    DEADLINE.set(Some(deadline));
    OBJECTS.set(0);
    read()
}

/// Unwinds if the deadline has passed. This is not a panic: the process's panic hook does not run.
pub(super) fn check_deadline() {
    if DEADLINE.get().is_some_and(|deadline| Instant::now() > deadline) {
        resume_unwind(Box::new(Aborted::DeadlinePassed));
    }
}

/// Adds to the number of objects. Unwinds if it exceeds the limit.
pub(super) fn count_objects(objects: usize) {
    OBJECTS.set(OBJECTS.get().saturating_add(objects));
    if OBJECTS.get() > MAX_OBJECTS {
        resume_unwind(Box::new(Aborted::TooManyObjects));
    }
}
