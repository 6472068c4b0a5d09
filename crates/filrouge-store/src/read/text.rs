//! Merges metadata.

use filrouge_types::RawJson;

/// Merges the metadata of a start or a close: two JSON objects. A member of the second object replaces the member of
/// the same name in the first. Returns `{}` when both are absent.
pub fn merge_metadata(first: Option<&RawJson>, second: Option<&RawJson>) -> RawJson {
    match (first, second) {
        (None, None) => RawJson::from_checked("{}"),
        (Some(only), None) | (None, Some(only)) => only.clone(),
        (Some(first), Some(second)) => filrouge_types::merge_objects(first, second),
    }
}
