//! What a write did, and where it went.

use std::ops::Deref;

use filrouge_store::Durability;

/// What a write did. It can be read like the value itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written<T> {
    /// What was written, as it stands.
    pub value: T,
    /// Whether an earlier write with the same key did it, and this one changed nothing.
    pub replayed: bool,
    /// Credentials and values of `runtime_context` that were masked.
    pub masked: u64,
    /// Where it went.
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

    /// The value alone.
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
