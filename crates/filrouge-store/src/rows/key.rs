//! The stored form of callers' idempotency keys: a hash of 16 bytes.

use filrouge_types::{EventKey, ItemId, RequestId};

use crate::chain::fingerprint;

/// The stored form of a request's key. It is in the same index as the items' keys.
pub fn request_key(id: &RequestId) -> [u8; 16] {
    fingerprint(&[b"request key", id.as_str().as_bytes()])
}

/// The stored form of an event's key.
pub fn event_key(key: &EventKey) -> [u8; 16] {
    fingerprint(&[b"event key", key.as_str().as_bytes()])
}

/// The stored form of an item's key.
pub fn item_key(id: &ItemId) -> [u8; 16] {
    fingerprint(&[b"item key", id.as_str().as_bytes()])
}
