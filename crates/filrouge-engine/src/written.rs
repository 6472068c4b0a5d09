//! The result of a write, and its durability.

use std::ops::Deref;

use filrouge_store::Durability;

/// The result of a write, which dereferences to the written value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written<T> {
    /// The written value, as it is after the write.
    pub value: T,
    /// Whether the write is a replay: an earlier write with the same key wrote the value, and this one changed nothing.
    pub replayed: bool,
    /// The number of credentials and values of `runtime_context` that were masked in the write.
    pub masked: u64,
    /// The durability of the write.
    pub durability: Durability,
}

impl<T> Deref for Written<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Written<T> {
    /// The result of a write in which nothing was masked.
    pub(crate) const fn new(value: T, replayed: bool, durability: Durability) -> Self {
        Self {
            value,
            replayed,
            masked: 0,
            durability,
        }
    }

    /// Returns only the written value.
    pub fn into_value(self) -> T {
        self.value
    }

    /// The same result with another value.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Written<U> {
        Written {
            value: convert(self.value),
            replayed: self.replayed,
            masked: self.masked,
            durability: self.durability,
        }
    }
}
