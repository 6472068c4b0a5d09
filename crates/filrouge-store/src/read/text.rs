//! JSON objects merged.

use filrouge_types::RawJson;

/// Two JSON objects, the second one's members over the first one's; `{}` when there is none.
#[must_use]
pub fn merged(first: Option<&RawJson>, second: Option<&RawJson>) -> RawJson {
    match (first, second) {
        (None, None) => RawJson::from_checked("{}"),
        (Some(one), None) | (None, Some(one)) => one.clone(),
        (Some(first), Some(second)) => filrouge_types::merge_objects(first, second),
    }
}
