//! The tree that messages and their causes make.

use super::Told;
use std::collections::{HashMap, HashSet};

/// Each message before those it caused. One whose cause is not among them begins a tree of its own.
pub(super) fn in_order(messages: Vec<Told>) -> Vec<Told> {
    let index: HashMap<String, usize> =
        messages.iter().enumerate().map(|(nth, told)| (told.event_id.to_string(), nth)).collect();
    let parent = |nth: usize| messages[nth].causation_id.as_ref().and_then(|id| index.get(id)).copied();
    let mut caused: HashMap<usize, Vec<usize>> = HashMap::new();
    for nth in 0..messages.len() {
        if let Some(parent) = parent(nth) {
            caused.entry(parent).or_default().push(nth);
        }
    }
    let mut order: Vec<(usize, usize)> = Vec::with_capacity(messages.len());
    let mut seen: HashSet<usize> = HashSet::new();
    // Those without a cause first; whoever is left after them stands in a circle, which only broken data can make.
    let roots = (0..messages.len()).filter(|nth| parent(*nth).is_none());
    for root in roots.chain(0..messages.len()) {
        let mut stack = vec![(root, 0)];
        while let Some((nth, depth)) = stack.pop() {
            if seen.insert(nth) {
                order.push((nth, depth));
                stack.extend(caused.get(&nth).into_iter().flatten().rev().map(|child| (*child, depth + 1)));
            }
        }
    }
    let mut messages: Vec<Option<Told>> = messages.into_iter().map(Some).collect();
    let told = order.into_iter().filter_map(|(nth, depth)| Some(Told { depth, ..messages[nth].take()? }));
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn message(n: u128, cause: Option<u128>) -> Told {
        Told {
            depth: 0,
            event_id: Uuid::from_u128(n),
            event_type: "a.v1".into(),
            topic: "e:k".into(),
            tenant: "acme".into(),
            causation_id: cause.map(|cause| Uuid::from_u128(cause).to_string()),
            ordering_key: None,
            aggregate: None,
            occurred_at: None,
            written_at: None,
            publications: Vec::new(),
            places: Vec::new(),
            dead_letters: Vec::new(),
        }
    }

    fn order(messages: Vec<Told>) -> Vec<(u128, usize)> {
        in_order(messages).iter().map(|told| (told.event_id.as_u128(), told.depth)).collect()
    }

    #[test]
    fn each_message_stands_before_those_it_caused_and_children_keep_their_order() {
        let story =
            vec![message(1, None), message(2, Some(1)), message(3, None), message(4, Some(2)), message(5, Some(1))];
        assert_eq!(order(story), [(1, 0), (2, 1), (4, 2), (5, 1), (3, 0)]);
    }

    #[test]
    fn an_unknown_cause_begins_a_tree_and_a_circle_is_told_once() {
        let story = vec![message(1, Some(99)), message(2, Some(3)), message(3, Some(2)), message(4, Some(4))];
        assert_eq!(order(story), [(1, 0), (2, 0), (3, 1), (4, 0)]);
    }
}
