//! Masks anything with the form of a credential before it leaves the library: in texts, and in names such as those of
//! tools and models. Ids of sessions, messages and parts are never masked, because callers query with them.

use std::collections::BTreeMap;

use filrouge_engine::{Masked, mask_text};

/// Returns a text for display: with `mask`, anything with the form of a credential is masked.
pub fn display_text(text: &str, mask: bool) -> String {
    let masked = mask.then(|| mask_text(text, &mut Masked::default()));
    masked.flatten().unwrap_or_else(|| text.to_owned())
}

/// Like [`display_text`], for an optional text.
pub fn optional_text(text: Option<&str>, mask: bool) -> Option<String> {
    text.map(|text| display_text(text, mask))
}

/// Masks texts in place.
pub(super) fn mask_in_place<'a>(texts: impl IntoIterator<Item = &'a mut String>) {
    for text in texts {
        if let Some(masked) = mask_text(text, &mut Masked::default()) {
            *text = masked;
        }
    }
}

/// Masks the keys of a map. When two keys become equal, `merge` merges their values.
pub(super) fn mask_keys<V: Default>(map: &mut BTreeMap<String, V>, merge: impl Fn(&mut V, &V)) {
    let masked = |key: &String| mask_text(key, &mut Masked::default());
    let replacements: Vec<_> = map
        .keys()
        .filter_map(|k| Some((k.clone(), masked(k)?)))
        .collect();
    for (key, masked) in replacements {
        if let Some(value) = map.remove(&key) {
            merge(map.entry(masked).or_default(), &value);
        }
    }
}
