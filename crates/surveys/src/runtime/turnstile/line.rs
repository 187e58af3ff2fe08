//! Who waits, and whose steps are on their way. No I/O.

use std::collections::{HashSet, VecDeque};
use uuid::Uuid;

/// Steps of one group. More make a transaction longer, and hardly cheaper for each.
const GROUP_MAX: usize = 32;
/// Groups of a tenant at once. One decides while the other commits; a third would find the same buckets locked, and leave the
/// other two less to share.
const GROUPS_AT_ONCE: usize = 2;

/// Somebody waits for it.
pub(super) trait Wait {
    /// Nobody does any more.
    fn is_over(&self) -> bool;
}

/// The line of one tenant.
pub(super) struct Line<T> {
    waiting: VecDeque<(Uuid, T)>,
    on_their_way: HashSet<Uuid>,
    groups: usize,
}

/// No more may wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), on_their_way: HashSet::new(), groups: 0 }
    }
}

impl<T: Wait> Line<T> {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Nobody waits, and nobody is on their way.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.groups == 0
    }

    pub(super) fn join(&mut self, session_id: Uuid, step: T, waiting_max: usize) -> Result<(), Full> {
        if self.waiting.len() >= waiting_max {
            self.waiting.retain(|(_, step)| !step.is_over());
        }
        if self.waiting.len() >= waiting_max {
            return Err(Full);
        }
        self.waiting.push_back((session_id, step));
        Ok(())
    }

    /// A group more, if there may be one and there is somebody who can go.
    pub(super) fn begin(&mut self) -> Option<Vec<(Uuid, T)>> {
        if self.groups >= GROUPS_AT_ONCE {
            return None;
        }
        let group = self.take()?;
        self.groups += 1;
        Some(group)
    }

    /// The group has arrived, and is followed by another or by none.
    pub(super) fn go_on(&mut self, arrived: &[Uuid]) -> Option<Vec<(Uuid, T)>> {
        self.give_up(arrived);
        self.begin()
    }

    /// The group is no more.
    pub(super) fn give_up(&mut self, group: &[Uuid]) {
        for session_id in group {
            self.on_their_way.remove(session_id);
        }
        self.groups -= 1;
    }

    /// The first ones who can go: no session twice, and none that is on its way. Those nobody waits for go nowhere.
    fn take(&mut self) -> Option<Vec<(Uuid, T)>> {
        let (mut group, mut behind) = (Vec::new(), VecDeque::new());
        while group.len() < GROUP_MAX
            && let Some((session_id, step)) = self.waiting.pop_front()
        {
            if step.is_over() {
                continue;
            }
            if self.on_their_way.insert(session_id) {
                group.push((session_id, step));
            } else {
                behind.push_back((session_id, step));
            }
        }
        behind.append(&mut self.waiting);
        self.waiting = behind;
        (!group.is_empty()).then_some(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number, and whether somebody waits.
    #[derive(Debug, PartialEq)]
    struct Numbered(usize, bool);

    impl Wait for Numbered {
        fn is_over(&self) -> bool {
            !self.1
        }
    }

    fn line(sessions: &[Uuid]) -> Line<Numbered> {
        let mut line = Line::default();
        for (number, session_id) in sessions.iter().enumerate() {
            line.join(*session_id, Numbered(number, true), 1000).unwrap();
        }
        line
    }

    fn numbers(group: Option<Vec<(Uuid, Numbered)>>) -> Vec<usize> {
        group.into_iter().flatten().map(|(_, Numbered(number, _))| number).collect()
    }

    fn ids<const N: usize>() -> [Uuid; N] {
        std::array::from_fn(|number| Uuid::from_u128(number as u128))
    }

    #[test]
    fn a_session_s_steps_go_one_by_one_in_their_order_and_hold_up_nobody() {
        let [a, b, c] = ids();
        let mut line = line(&[a, a, b, a]);
        assert_eq!(numbers(line.begin()), [0, 2]);
        line.join(c, Numbered(4, true), 1000).unwrap();
        assert_eq!(numbers(line.begin()), [4], "the others have a step on its way");
        assert_eq!(numbers(line.go_on(&[c])), [0; 0]);
        assert_eq!(numbers(line.go_on(&[a, b])), [1]);
        assert_eq!(numbers(line.go_on(&[a])), [3]);
        assert_eq!(numbers(line.go_on(&[a])), [0; 0]);
        assert!(line.is_idle());
    }

    #[test]
    fn groups_have_a_bound_in_size_and_in_number() {
        let sessions: [Uuid; 3 * GROUP_MAX] = ids();
        let mut line = line(&sessions);
        assert_eq!(line.begin().unwrap().len(), GROUP_MAX);
        assert_eq!(line.begin().unwrap().len(), GROUP_MAX);
        assert_eq!(line.begin(), None);
        assert_eq!(line.go_on(&sessions[..GROUP_MAX]).unwrap().len(), GROUP_MAX);
        assert_eq!(line.len(), 0);
    }

    #[test]
    fn a_full_line_takes_nobody_until_somebody_goes_or_goes_away() {
        let [a, b, c, d] = ids();
        let mut line = Line::default();
        line.join(a, Numbered(0, true), 2).unwrap();
        line.join(b, Numbered(1, true), 2).unwrap();
        assert_eq!(line.join(c, Numbered(2, true), 2), Err(Full));
        line.waiting[0].1.1 = false;
        line.join(c, Numbered(3, true), 2).unwrap();
        assert_eq!(numbers(line.begin()), [1, 3]);
        line.join(d, Numbered(4, true), 2).unwrap();
    }

    #[test]
    fn nobody_goes_for_who_is_away_and_a_group_that_is_given_up_frees_its_sessions() {
        let [a, b] = ids();
        let mut line = line(&[a, b, a]);
        line.waiting[1].1.1 = false;
        assert_eq!(numbers(line.begin()), [0]);
        line.give_up(&[a]);
        assert!(!line.is_idle());
        assert_eq!(numbers(line.begin()), [2]);
    }
}
