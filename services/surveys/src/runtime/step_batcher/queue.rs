//! The queue of waiting steps, and the sessions whose steps are in flight. No I/O.

use std::collections::{HashSet, VecDeque};
use uuid::Uuid;

/// The maximum number of steps per batch. Larger batches make a transaction longer but hardly cheaper per step.
const BATCH_MAX: usize = 32;
/// The maximum number of concurrent batches per tenant. One decides while the other commits; a third would wait for
/// the same bucket locks, and leave the other two less to share.
const CONCURRENT_BATCHES_MAX: usize = 2;

/// A step whose caller may stop waiting for the response.
pub(super) trait Cancellable {
    /// Returns whether the caller has stopped waiting.
    fn is_cancelled(&self) -> bool;
}

/// The step queue of one tenant.
pub(super) struct StepQueue<T> {
    waiting: VecDeque<(Uuid, T)>,
    /// The sessions whose steps are in flight.
    in_flight: HashSet<Uuid>,
    running_batches: usize,
}

/// The queue is full.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct QueueFull;

impl<T> Default for StepQueue<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), in_flight: HashSet::new(), running_batches: 0 }
    }
}

impl<T: Cancellable> StepQueue<T> {
    /// Returns the number of waiting steps.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether no step is waiting or in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running_batches == 0
    }

    /// Appends a step. Fails if `waiting_max` steps are waiting whose callers have not disconnected.
    pub(super) fn push(&mut self, session_id: Uuid, step: T, waiting_max: usize) -> Result<(), QueueFull> {
        if self.waiting.len() >= waiting_max {
            self.waiting.retain(|(_, step)| !step.is_cancelled());
        }
        if self.waiting.len() >= waiting_max {
            return Err(QueueFull);
        }
        self.waiting.push_back((session_id, step));
        Ok(())
    }

    /// Starts another batch, if the limit allows it and a step is ready.
    pub(super) fn start_batch(&mut self) -> Option<Vec<(Uuid, T)>> {
        if self.running_batches >= CONCURRENT_BATCHES_MAX {
            return None;
        }
        let batch = self.take_ready()?;
        self.running_batches += 1;
        Some(batch)
    }

    /// Ends the batch with these sessions, and starts the next one if a step is ready.
    pub(super) fn start_next_batch(&mut self, finished: &[Uuid]) -> Option<Vec<(Uuid, T)>> {
        self.end_batch(finished);
        self.start_batch()
    }

    /// Ends the batch with these sessions.
    pub(super) fn end_batch(&mut self, sessions: &[Uuid]) {
        for session_id in sessions {
            self.in_flight.remove(session_id);
        }
        self.running_batches -= 1;
    }

    /// Takes the first steps that are ready: at most one per session, and none of a session with a step in flight.
    /// Steps whose caller has disconnected are dropped.
    fn take_ready(&mut self) -> Option<Vec<(Uuid, T)>> {
        let (mut batch, mut not_ready) = (Vec::new(), VecDeque::new());
        while batch.len() < BATCH_MAX
            && let Some((session_id, step)) = self.waiting.pop_front()
        {
            if step.is_cancelled() {
                continue;
            }
            if self.in_flight.insert(session_id) {
                batch.push((session_id, step));
            } else {
                not_ready.push_back((session_id, step));
            }
        }
        not_ready.append(&mut self.waiting);
        self.waiting = not_ready;
        (!batch.is_empty()).then_some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct NumberedStep {
        number: usize,
        cancelled: bool,
    }

    impl Cancellable for NumberedStep {
        fn is_cancelled(&self) -> bool {
            self.cancelled
        }
    }

    fn step(number: usize) -> NumberedStep {
        NumberedStep { number, cancelled: false }
    }

    fn queue(sessions: &[Uuid]) -> StepQueue<NumberedStep> {
        let mut queue = StepQueue::default();
        for (number, session_id) in sessions.iter().enumerate() {
            queue.push(*session_id, step(number), 1000).unwrap();
        }
        queue
    }

    fn numbers(batch: Option<Vec<(Uuid, NumberedStep)>>) -> Vec<usize> {
        batch.into_iter().flatten().map(|(_, step)| step.number).collect()
    }

    fn ids<const N: usize>() -> [Uuid; N] {
        std::array::from_fn(|number| Uuid::from_u128(number as u128))
    }

    #[test]
    fn steps_of_a_session_run_one_by_one_in_order_without_blocking_other_sessions() {
        let [a, b, c] = ids();
        let mut queue = queue(&[a, a, b, a]);
        assert_eq!(numbers(queue.start_batch()), [0, 2]);
        queue.push(c, step(4), 1000).unwrap();
        assert_eq!(numbers(queue.start_batch()), [4], "the other sessions have a step in flight");
        assert_eq!(numbers(queue.start_next_batch(&[c])), [0; 0]);
        assert_eq!(numbers(queue.start_next_batch(&[a, b])), [1]);
        assert_eq!(numbers(queue.start_next_batch(&[a])), [3]);
        assert_eq!(numbers(queue.start_next_batch(&[a])), [0; 0]);
        assert!(queue.is_idle());
    }

    #[test]
    fn batches_are_bounded_in_size_and_number() {
        let sessions: [Uuid; 3 * BATCH_MAX] = ids();
        let mut queue = queue(&sessions);
        assert_eq!(queue.start_batch().unwrap().len(), BATCH_MAX);
        assert_eq!(queue.start_batch().unwrap().len(), BATCH_MAX);
        assert_eq!(queue.start_batch(), None);
        assert_eq!(queue.start_next_batch(&sessions[..BATCH_MAX]).unwrap().len(), BATCH_MAX);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn a_full_queue_accepts_steps_again_once_one_runs_or_its_caller_disconnects() {
        let [a, b, c, d] = ids();
        let mut queue = StepQueue::default();
        queue.push(a, step(0), 2).unwrap();
        queue.push(b, step(1), 2).unwrap();
        assert_eq!(queue.push(c, step(2), 2), Err(QueueFull));
        queue.waiting[0].1.cancelled = true;
        queue.push(c, step(3), 2).unwrap();
        assert_eq!(numbers(queue.start_batch()), [1, 3]);
        queue.push(d, step(4), 2).unwrap();
    }

    #[test]
    fn steps_of_disconnected_callers_are_dropped_and_an_ended_batch_frees_its_sessions() {
        let [a, b] = ids();
        let mut queue = queue(&[a, b, a]);
        queue.waiting[1].1.cancelled = true;
        assert_eq!(numbers(queue.start_batch()), [0]);
        queue.end_batch(&[a]);
        assert!(!queue.is_idle());
        assert_eq!(numbers(queue.start_batch()), [2]);
    }
}
