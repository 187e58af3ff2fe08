//! How many tasks share a relay's work.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use tokio::sync::Notify;

/// A task that is not needed looks this often whether it is: those that are may be held up.
const SPARE_LOOKS: Duration = Duration::from_secs(1);

/// How many of a relay's tasks are at work: all of them at first, when nobody knows how much there is. While there is little to
/// carry, one of them carries it all: turns and requests to the bus are dear, and what two carry apart one carries for half the
/// price.
pub(crate) struct Crew {
    at_work: AtomicUsize,
    tasks: usize,
    wanted: Notify,
}

impl Crew {
    pub(crate) fn new(tasks: usize) -> Self {
        Self { at_work: AtomicUsize::new(tasks), tasks, wanted: Notify::new() }
    }

    pub(crate) fn needs(&self, task: usize) -> bool {
        task < self.at_work()
    }

    /// Waits until another task is needed, or should look.
    pub(crate) async fn spare(&self) {
        let _ = tokio::time::timeout(SPARE_LOOKS, self.wanted.notified()).await;
    }

    pub(crate) fn at_work(&self) -> usize {
        self.at_work.load(Ordering::Relaxed)
    }

    /// There was so much that another task can have its share, or so little that one is too many.
    pub(crate) fn change(&self, few: bool) {
        let change = |at_work: usize| Some(if few { at_work - 1 } else { at_work + 1 }.clamp(1, self.tasks));
        let _ = self.at_work.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        if !few {
            self.wanted.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_begins_with_all_shrinks_to_one_and_grows_with_the_work() {
        let crew = Crew::new(3);
        assert!(crew.needs(2) && !crew.needs(3));
        for _ in 0..5 {
            crew.change(true);
        }
        assert!(crew.needs(0) && !crew.needs(1));
        let spare = crew.spare();
        tokio::pin!(spare);
        assert!(futures_util::poll!(&mut spare).is_pending());
        crew.change(false);
        assert!(futures_util::poll!(&mut spare).is_ready(), "who is spare hears that it is needed");
        for _ in 0..5 {
            crew.change(false);
        }
        assert_eq!(crew.at_work(), 3);
    }
}
