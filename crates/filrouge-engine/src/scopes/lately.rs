//! What was used lately, within a bound: two generations, the older of which is forgotten whole.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A map of at most so many entries that forgets those that were not used for longest, about.
pub(super) struct Lately<K, V> {
    generations: Mutex<Generations<K, V>>,
    half: usize,
}

struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K: Eq + Hash + Copy, V: Clone> Lately<K, V> {
    /// An empty one of at most `most` entries.
    pub(super) fn new(most: usize) -> Self {
        Self {
            generations: Mutex::new(Generations {
                young: HashMap::new(),
                old: HashMap::new(),
            }),
            half: (most / 2).max(1),
        }
    }

    fn locked(&self) -> MutexGuard<'_, Generations<K, V>> {
        // Each change is one call of a map.
        self.generations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of `key`.
    pub(super) fn get(&self, key: &K) -> Option<V> {
        let mut generations = self.locked();
        if let Some(value) = generations.young.get(key) {
            return Some(value.clone());
        }
        let value = generations.old.remove(key)?;
        generations.put(*key, value.clone(), self.half);
        Some(value)
    }

    /// Remembers `value`.
    pub(super) fn put(&self, key: K, value: V) {
        self.locked().put(key, value, self.half);
    }

    /// Changes what is known of `key`, from nothing if it is nothing.
    pub(super) fn change(&self, key: K, change: impl FnOnce(&mut V))
    where
        V: Default,
    {
        let mut generations = self.locked();
        let known = generations.young.remove(&key);
        let mut value = known
            .or_else(|| generations.old.remove(&key))
            .unwrap_or_default();
        change(&mut value);
        generations.put(key, value, self.half);
    }

    /// Forgets it.
    pub(super) fn remove(&self, key: &K) {
        let mut generations = self.locked();
        generations.young.remove(key);
        generations.old.remove(key);
    }
}

impl<K: Eq + Hash, V> Generations<K, V> {
    fn put(&mut self, key: K, value: V, half: usize) {
        if self.young.len() >= half && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_holds_and_what_is_used_stays() {
        let lately = Lately::new(8);
        lately.put(0, 0);
        for n in 1..1000 {
            lately.put(n, n);
            assert_eq!(lately.get(&0), Some(0), "after {n}");
            let generations = lately.locked();
            assert!(generations.young.len() + generations.old.len() <= 8);
        }
        assert_eq!(lately.get(&1), None);
        assert_eq!(lately.get(&999), Some(999));
        lately.change(999, |n| *n += 1);
        assert_eq!(lately.get(&999), Some(1000));
        lately.remove(&999);
        assert_eq!(lately.get(&999), None);
    }
}
