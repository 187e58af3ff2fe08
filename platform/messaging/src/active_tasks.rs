//! The number of tasks that share a relay's work.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use tokio::sync::Notify;

/// How often an idle task checks whether it is needed: the active ones may be blocked.
const SPARE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The number of a relay's tasks that are active: all of them at first, while the load is unknown. Under low load a
/// single task does all the work: turns and requests to the bus are expensive, and one batch costs half as much as
/// two.
pub(crate) struct ActiveTasks {
    active: AtomicUsize,
    tasks: usize,
    wanted: Notify,
}

impl ActiveTasks {
    pub(crate) fn new(tasks: usize) -> Self {
        Self { active: AtomicUsize::new(tasks), tasks, wanted: Notify::new() }
    }

    /// Returns whether the task with this index is active.
    pub(crate) fn includes(&self, task: usize) -> bool {
        task < self.count()
    }

    /// Waits until another task is needed, or until the next periodic check.
    pub(crate) async fn wait_until_needed(&self) {
        let _ = tokio::time::timeout(SPARE_CHECK_INTERVAL, self.wanted.notified()).await;
    }

    pub(crate) fn count(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// Removes an active task if the last turn was small (`few`), otherwise adds one. At least one stays active.
    pub(crate) fn adjust(&self, few: bool) {
        let change = |active: usize| Some(if few { active - 1 } else { active + 1 }.clamp(1, self.tasks));
        let _ = self.active.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        if !few {
            self.wanted.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_tasks_are_active_at_first_then_their_number_follows_the_load() {
        let active = ActiveTasks::new(3);
        assert!(active.includes(2) && !active.includes(3));
        for _ in 0..5 {
            active.adjust(true);
        }
        assert!(active.includes(0) && !active.includes(1));
        let spare = active.wait_until_needed();
        tokio::pin!(spare);
        assert!(futures_util::poll!(&mut spare).is_pending());
        active.adjust(false);
        assert!(futures_util::poll!(&mut spare).is_ready(), "a spare task is woken when it is needed");
        for _ in 0..5 {
            active.adjust(false);
        }
        assert_eq!(active.count(), 3);
    }
}
