//! Sorts messages into the tree of their causes.

use super::StoryMessage;
use std::collections::{HashMap, HashSet};

/// Returns each message before those it caused. One whose cause is not among them is a root.
pub(super) fn sort_by_cause(messages: Vec<StoryMessage>) -> Vec<StoryMessage> {
    let index: HashMap<String, usize> =
        messages.iter().enumerate().map(|(nth, message)| (message.event_id.to_string(), nth)).collect();
    let parent = |nth: usize| messages[nth].causation_id.as_ref().and_then(|id| index.get(id)).copied();
    let mut caused: HashMap<usize, Vec<usize>> = HashMap::new();
    for nth in 0..messages.len() {
        if let Some(parent) = parent(nth) {
            caused.entry(parent).or_default().push(nth);
        }
    }
    let mut order: Vec<(usize, usize)> = Vec::with_capacity(messages.len());
    let mut seen: HashSet<usize> = HashSet::new();
    // Messages without a cause come first; those left after them form a cycle, which only corrupt data can contain.
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
    let mut messages: Vec<Option<StoryMessage>> = messages.into_iter().map(Some).collect();
    let sorted = order.into_iter().filter_map(|(nth, depth)| Some(StoryMessage { depth, ..messages[nth].take()? }));
    sorted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn message(n: u128, cause: Option<u128>) -> StoryMessage {
        StoryMessage {
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
            deliveries: Vec::new(),
            dead_letters: Vec::new(),
            contributions: Vec::new(),
        }
    }

    fn order(messages: Vec<StoryMessage>) -> Vec<(u128, usize)> {
        sort_by_cause(messages).iter().map(|message| (message.event_id.as_u128(), message.depth)).collect()
    }

    #[test]
    fn each_message_comes_before_those_it_caused_and_children_keep_their_order() {
        let story =
            vec![message(1, None), message(2, Some(1)), message(3, None), message(4, Some(2)), message(5, Some(1))];
        assert_eq!(order(story), [(1, 0), (2, 1), (4, 2), (5, 1), (3, 0)]);
    }

    #[test]
    fn message_with_unknown_cause_is_a_root_and_messages_of_a_cycle_appear_once() {
        let story = vec![message(1, Some(99)), message(2, Some(3)), message(3, Some(2)), message(4, Some(4))];
        assert_eq!(order(story), [(1, 0), (2, 0), (3, 1), (4, 0)]);
    }
}
