//! The result of a write, and its durability.

use std::ops::Deref;

use filrouge_store::Durability;

/// The result of a write. It dereferences to the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written<T> {
    /// The written value, in its current state.
    pub value: T,
    /// Whether an earlier write with the same key wrote it, and this one changed nothing.
    pub replayed: bool,
    /// The number of masked credentials and values of `runtime_context`.
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
    /// A write that masked nothing.
    pub(crate) const fn new(value: T, replayed: bool, durability: Durability) -> Self {
        Self {
            value,
            replayed,
            masked: 0,
            durability,
        }
    }

    /// The value without the rest.
    pub fn into_value(self) -> T {
        self.value
    }

    /// The same write with another value.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Written<U> {
        Written {
            value: make(self.value),
            replayed: self.replayed,
            masked: self.masked,
            durability: self.durability,
        }
    }
}
