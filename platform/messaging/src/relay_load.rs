//! How a relay follows its load: the number of tasks that share the work, and the size of their batches.

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

/// The maximum size of a batch in bytes, as far as earlier batches allow an estimate.
const BATCH_BYTES_MAX: usize = 32 << 20;
/// The assumed size of a message before any was seen.
const ASSUMED_BYTES: usize = 64 << 10;

/// Determines how many messages a task takes next.
pub(crate) struct BatchSizer {
    most: usize,
    mean_bytes: usize,
}

impl BatchSizer {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, mean_bytes: ASSUMED_BYTES }
    }

    pub(crate) fn next_size(&self) -> usize {
        (BATCH_BYTES_MAX / self.mean_bytes.max(1)).clamp(1, self.most)
    }

    /// Updates the estimate. Larger messages count at once; for smaller ones, the next batch at most doubles.
    pub(crate) fn record(&mut self, messages: usize, bytes: usize) {
        if let Some(mean_bytes) = bytes.checked_div(messages) {
            self.mean_bytes = mean_bytes.max(self.mean_bytes / 2);
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

    #[test]
    fn batches_grow_to_the_maximum_while_messages_are_small() {
        let mut sizer = BatchSizer::new(2_000);
        let mut sizes = Vec::new();
        for _ in 0..4 {
            sizes.push(sizer.next_size());
            sizer.record(sizer.next_size(), sizer.next_size() * 500);
        }
        assert_eq!(sizes, [512, 1_024, 2_000, 2_000]);
    }

    #[test]
    fn batches_shrink_immediately_when_messages_are_large_and_are_never_empty() {
        let mut sizer = BatchSizer::new(2_000);
        sizer.record(512, 512 << 20);
        assert_eq!(sizer.next_size(), 32);
        sizer.record(0, 0);
        assert_eq!(sizer.next_size(), 32, "an empty batch changes nothing");
        sizer.record(1, usize::MAX);
        assert_eq!(sizer.next_size(), 1);
    }

    #[test]
    fn the_configured_maximum_is_never_exceeded() {
        let mut sizer = BatchSizer::new(3);
        sizer.record(3, 0);
        assert_eq!(sizer.next_size(), 3);
    }
}
