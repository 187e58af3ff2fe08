//! The size of a relay's batches: limited by number, and by bytes as estimated from recent messages.

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
