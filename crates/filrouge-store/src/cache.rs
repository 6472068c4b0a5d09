//! What a process remembers: bounded, least recently used first to go.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Values by their keys, within a bound of weight.
pub struct Cache<K, V> {
    values: HashMap<K, Entry<V>>,
    /// Keys by when they were last used.
    order: BTreeMap<u64, K>,
    uses: u64,
    weight: usize,
    most: usize,
}

struct Entry<V> {
    value: V,
    used: u64,
    weight: usize,
}

impl<K: Copy + Eq + Hash, V: Clone> Cache<K, V> {
    /// An empty one that holds at most so much weight.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            values: HashMap::new(),
            order: BTreeMap::new(),
            uses: 0,
            weight: 0,
            most,
        }
    }

    /// The value of a key, which counts as used then.
    pub fn get(&mut self, key: &K) -> Option<V> {
        let entry = self.values.get_mut(key)?;
        self.order.remove(&entry.used);
        self.uses += 1;
        entry.used = self.uses;
        self.order.insert(entry.used, *key);
        Some(entry.value.clone())
    }

    /// Puts a value; others go until it fits, and it goes itself when it never does.
    pub fn put(&mut self, key: K, value: V, weight: usize) {
        self.remove(&key);
        self.uses += 1;
        let used = self.uses;
        self.order.insert(used, key);
        self.weight += weight;
        let entry = Entry {
            value,
            used,
            weight,
        };
        self.values.insert(key, entry);
        while self.weight > self.most
            && let Some((_, oldest)) = self.order.first_key_value()
        {
            let oldest = *oldest;
            self.remove(&oldest);
        }
    }

    /// Forgets a key; its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.values.remove(key)?;
        self.order.remove(&entry.used);
        self.weight -= entry.weight;
        Some(entry.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn key(n: u8) -> [u8; 16] {
        [n; 16]
    }

    #[test]
    fn what_was_not_used_for_longest_goes() {
        let mut cache = Cache::new(10);
        for n in 1..=3 {
            cache.put(key(n), n, 3);
        }
        assert_eq!(cache.get(&key(1)), Some(1));
        cache.put(key(4), 4, 4);
        assert_eq!(cache.get(&key(2)), None);
        assert_eq!(
            [1, 3, 4].map(|n| cache.get(&key(n))),
            [Some(1), Some(3), Some(4)]
        );
        // Another weight of the same name takes the place of the first.
        cache.put(key(3), 5, 1);
        cache.put(key(2), 2, 2);
        assert_eq!(
            [1, 2, 3, 4].map(|n| cache.get(&key(n))),
            [Some(1), Some(2), Some(5), Some(4)]
        );
        cache.put(key(9), 9, 11);
        assert_eq!([1, 2, 3, 4, 9].map(|n| cache.get(&key(n))), [None; 5]);
        assert_eq!(
            (cache.weight, cache.order.len(), cache.values.len()),
            (0, 0, 0)
        );
    }
}
