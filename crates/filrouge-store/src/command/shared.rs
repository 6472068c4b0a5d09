//! Serializes a shared value as the value itself.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(super) fn serialize<T: Serialize, S: Serializer>(
    shared: &Arc<T>,
    s: S,
) -> Result<S::Ok, S::Error> {
    T::serialize(shared, s)
}

pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    d: D,
) -> Result<Arc<T>, D::Error> {
    T::deserialize(d).map(Arc::new)
}
