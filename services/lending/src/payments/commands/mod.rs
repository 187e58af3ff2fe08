//! The payment commands, one per file. Each loads, decides, records and publishes.
//!
//! A command that handles many payments at once records and publishes each of them in the scope of the message or
//! request that caused it, which it takes as an argument.

pub(crate) mod allocate_suspense;
pub(crate) mod apply_suspense;
pub(crate) mod fail_payment;
pub(crate) mod post_payment;
pub(crate) mod receive_payment;
pub(crate) mod replay;
pub(crate) mod return_payment;
pub(crate) mod unapplied;
pub(crate) mod validate_payment;

use std::{collections::HashMap, hash::Hash};

/// The most items in one group.
const MAX_GROUP: usize = 500;

/// Splits `items` into groups in which no key occurs twice, so that the items of a group do not depend on each other.
/// Items with the same key keep their order from group to group.
pub(crate) fn independent_groups<T, K: Eq + Hash>(items: &[T], key: impl Fn(&T) -> K) -> Vec<Vec<&T>> {
    let mut groups: Vec<Vec<&T>> = Vec::new();
    let mut next_of: HashMap<K, usize> = HashMap::new();
    for item in items {
        let next = next_of.entry(key(item)).or_default();
        while groups.get(*next).is_some_and(|group| group.len() >= MAX_GROUP) {
            *next += 1;
        }
        if groups.len() <= *next {
            groups.resize_with(*next + 1, Vec::new);
        }
        groups[*next].push(item);
        *next += 1;
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_occurs_once_per_group_and_its_items_keep_their_order() {
        let items = [("a", 0), ("b", 1), ("a", 2), ("c", 3), ("a", 4), ("b", 5)];
        let numbers: Vec<Vec<i32>> = independent_groups(&items, |item| item.0)
            .into_iter()
            .map(|group| group.into_iter().map(|item| item.1).collect())
            .collect();
        assert_eq!(numbers, [vec![0, 1, 3], vec![2, 5], vec![4]]);
        assert!(independent_groups(&[] as &[u8], |item| *item).is_empty());
    }

    #[test]
    fn a_group_has_a_maximum_size() {
        let items: Vec<usize> = (0..2 * MAX_GROUP + 1).collect();
        let groups = independent_groups(&items, |item| *item);
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [MAX_GROUP, MAX_GROUP, 1]);
    }
}
