//! How much a relay takes at a time: messages are bounded in number, and by what they weighed lately in bytes.

/// What one batch may weigh, as far as the batches before it tell.
const MOST_BYTES: usize = 32 << 20;
/// What a message weighs before any was seen.
const FIRST_GUESS: usize = 64 << 10;

/// How many messages a task takes next.
pub(crate) struct Portion {
    most: usize,
    mean_bytes: usize,
}

impl Portion {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, mean_bytes: FIRST_GUESS }
    }

    pub(crate) fn next(&self) -> usize {
        (MOST_BYTES / self.mean_bytes.max(1)).clamp(1, self.most)
    }

    /// Heavier ones count at once; of lighter ones, not more than twice as many are taken next time.
    pub(crate) fn weighed(&mut self, messages: usize, bytes: usize) {
        if let Some(mean_bytes) = bytes.checked_div(messages) {
            self.mean_bytes = mean_bytes.max(self.mean_bytes / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_to_the_most_while_messages_are_light() {
        let mut portion = Portion::new(2_000);
        let mut taken = Vec::new();
        for _ in 0..4 {
            taken.push(portion.next());
            portion.weighed(portion.next(), portion.next() * 500);
        }
        assert_eq!(taken, [512, 1_024, 2_000, 2_000]);
    }

    #[test]
    fn it_shrinks_at_once_when_they_are_heavy_and_is_never_none() {
        let mut portion = Portion::new(2_000);
        portion.weighed(512, 512 << 20);
        assert_eq!(portion.next(), 32);
        portion.weighed(0, 0);
        assert_eq!(portion.next(), 32, "nothing was weighed");
        portion.weighed(1, usize::MAX);
        assert_eq!(portion.next(), 1);
    }

    #[test]
    fn the_setting_is_the_most_however_light_they_are() {
        let mut portion = Portion::new(3);
        portion.weighed(3, 0);
        assert_eq!(portion.next(), 3);
    }
}
