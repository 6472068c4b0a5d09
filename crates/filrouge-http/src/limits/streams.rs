//! How many streams a key holds open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Retry;
use crate::metrics::Metrics;

/// Open streams by key; callers without a key are one.
#[derive(Debug)]
pub(super) struct StreamSlots {
    per_key: usize,
    open: Mutex<HashMap<String, usize>>,
}

impl StreamSlots {
    pub(super) fn new(per_key: usize) -> Arc<Self> {
        Arc::new(Self {
            per_key,
            open: Mutex::default(),
        })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn acquire(
        self: &Arc<Self>,
        key: Option<&str>,
        metrics: &Arc<Metrics>,
    ) -> Result<StreamSlot, Retry> {
        let key = key.unwrap_or_default();
        let mut open = self.open();
        let held = open.get(key).copied().unwrap_or(0);
        if held >= self.per_key {
            let what = "this key holds as many streams open as it may";
            return Err(Retry::new(what, "streams", Duration::from_secs(5)));
        }
        open.insert(key.to_owned(), held + 1);
        metrics.tail_readers.inc();
        Ok(StreamSlot {
            slots: self.clone(),
            metrics: metrics.clone(),
            key: key.to_owned(),
        })
    }
}

/// The place of one open stream; free again when dropped.
#[derive(Debug)]
pub struct StreamSlot {
    slots: Arc<StreamSlots>,
    metrics: Arc<Metrics>,
    key: String,
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.metrics.tail_readers.dec();
        let mut open = self.slots.open();
        match open.get_mut(&self.key) {
            Some(held) if *held > 1 => *held -= 1,
            _ => {
                open.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_holds_so_many_and_no_more() {
        let (slots, metrics) = (StreamSlots::new(2), Arc::new(Metrics::default()));
        let one = slots.acquire(Some("k"), &metrics).unwrap();
        let two = slots.acquire(Some("k"), &metrics).unwrap();
        assert_eq!(
            slots.acquire(Some("k"), &metrics).unwrap_err().kind(),
            "streams"
        );
        let other = slots.acquire(None, &metrics).unwrap();
        assert_eq!(metrics.tail_readers.get(), 3);
        drop(one);
        let three = slots.acquire(Some("k"), &metrics).unwrap();
        drop((two, three, other));
        assert_eq!(metrics.tail_readers.get(), 0);
        assert!(slots.open().is_empty(), "keys that are gone are forgotten");
    }
}
