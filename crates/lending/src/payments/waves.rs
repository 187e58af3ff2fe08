//! Many at once, where some depend on others.

use std::{collections::HashMap, hash::Hash};

/// The most of one wave.
const MOST: usize = 500;

/// Divides `0..keys.len()` into waves in which no key is there twice. What has the same key comes in its order.
pub(crate) fn waves<K: Eq + Hash>(keys: impl IntoIterator<Item = K>) -> Vec<Vec<usize>> {
    let mut waves: Vec<Vec<usize>> = Vec::new();
    let mut next_of: HashMap<K, usize> = HashMap::new();
    for (nth, key) in keys.into_iter().enumerate() {
        let next = next_of.entry(key).or_default();
        while waves.get(*next).is_some_and(|wave| wave.len() >= MOST) {
            *next += 1;
        }
        if waves.len() <= *next {
            waves.resize_with(*next + 1, Vec::new);
        }
        waves[*next].push(nth);
        *next += 1;
    }
    waves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_once_in_a_wave_and_its_waves_are_in_order() {
        assert_eq!(waves(["a", "b", "a", "c", "a", "b"]), [vec![0, 1, 3], vec![2, 5], vec![4]]);
        assert!(waves::<u8>([]).is_empty());
    }

    #[test]
    fn a_wave_has_its_bound() {
        let waves = waves(0..2 * MOST + 1);
        assert_eq!(waves.iter().map(Vec::len).collect::<Vec<_>>(), [MOST, MOST, 1]);
    }
}
