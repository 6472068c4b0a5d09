//! Callers' keys as they stand in a store: hashed to 16 bytes.

use filrouge_types::{EventKey, ItemId, RequestId};

use crate::chain::fingerprint;

/// Where the item or the request with a key is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRow {
    /// [`item_key`] or [`request_key`].
    pub key: [u8; 16],
    /// The item's seq, or the one that the request's turn begins at.
    pub seq: u64,
}

/// The 16 bytes a request's key is indexed by, among the items' keys.
#[must_use]
pub fn request_key(id: &RequestId) -> [u8; 16] {
    fingerprint(&[b"request key", id.as_str().as_bytes()])
}

/// The 16 bytes an event's key is indexed by.
#[must_use]
pub fn event_key(key: &EventKey) -> [u8; 16] {
    fingerprint(&[b"event key", key.as_str().as_bytes()])
}

/// The 16 bytes an item's key is indexed by.
#[must_use]
pub fn item_key(id: &ItemId) -> [u8; 16] {
    fingerprint(&[b"item key", id.as_str().as_bytes()])
}
