//! When a worker pool grows and shrinks: pure rules over the figures of its queues.
//!
//! - [`PoolSettings`]: the bounds and thresholds of a pool, checked as a whole.
//! - [`PoolSignals`]: what is known about its queues and destinations; a missing figure changes nothing.
//! - [`ScalingState`]: the size of a pool, and the decision about its next size.
//! - [`share`]: divides a pool over the processes that run it.
//!
//! ```text
//!            waiting ≥ scale_up_at, too old, or more work than workers
//!            (not while the destination cannot take more calls)
//!          ┌────────────────────────────────────────────────────────┐
//!          │                                                        ▼
//!     ┌─────────┐       cooldown_ms without a change         ┌──────────┐
//!     │ settled │ ◄───────────────────────────────────────── │ cooldown │
//!     └─────────┘                                            └──────────┘
//!          │                                                        ▲
//!          └────────────────────────────────────────────────────────┘
//!            low for the whole of stabilize_ms: one step down
//! ```

mod decide;
mod demand;
mod settings;

pub use decide::{ScalingDecision, ScalingState};
pub use demand::proportional_size;
pub use settings::{PoolSettings, PoolSignals};

/// Returns how many of a pool's `desired` workers the process with this rank runs. Ranks count from 0; the shares of
/// all `processes` add up to `desired`, and no two of them differ by more than one.
///
/// A rank outside the processes has no share, and no process has one if there are none.
pub fn share(desired: usize, processes: usize, rank: usize) -> usize {
    if rank >= processes {
        return 0;
    }
    desired / processes + usize::from(rank < desired % processes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_ranks_take_the_remainder() {
        assert_eq!((0..4).map(|rank| share(10, 4, rank)).collect::<Vec<_>>(), [3, 3, 2, 2]);
        assert_eq!((0..3).map(|rank| share(2, 3, rank)).collect::<Vec<_>>(), [1, 1, 0]);
        assert_eq!(share(5, 2, 2), 0);
        assert_eq!(share(5, 0, 0), 0);
    }

    proptest! {
        #[test]
        fn shares_add_up_to_the_pool(desired in 0..10_000usize, processes in 1..500usize) {
            let shares: Vec<usize> = (0..processes).map(|rank| share(desired, processes, rank)).collect();
            prop_assert_eq!(shares.iter().sum::<usize>(), desired);
            prop_assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        }
    }
}
