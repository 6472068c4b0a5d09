//! Merges JSON objects.

use filrouge_types::RawJson;

/// Merges two JSON objects. A member of the second one replaces the member of the same name in the first. `{}` when
/// both are absent.
#[must_use]
pub fn merged(first: Option<&RawJson>, second: Option<&RawJson>) -> RawJson {
    match (first, second) {
        (None, None) => RawJson::from_checked("{}"),
        (Some(one), None) | (None, Some(one)) => one.clone(),
        (Some(first), Some(second)) => filrouge_types::merge_objects(first, second),
    }
}
