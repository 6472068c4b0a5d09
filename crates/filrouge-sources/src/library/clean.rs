//! Words of others on their way out: what has the form of a credential is masked wherever it stands, in names as well as
//! in texts. Ids of sessions, messages and parts stay as they are: they are what to ask with.

use std::collections::BTreeMap;

use filrouge_engine::{Masked, mask_text};

/// A word as it is shown: if `mask` says so, without what has the form of a credential.
#[must_use]
pub fn word(text: &str, mask: bool) -> String {
    let masked = mask.then(|| mask_text(text, &mut Masked::default()));
    masked.flatten().unwrap_or_else(|| text.to_owned())
}

/// As [`word`], of a word that may not be there.
#[must_use]
pub fn some(text: Option<&str>, mask: bool) -> Option<String> {
    text.map(|text| word(text, mask))
}

/// Masks words in their place.
pub(super) fn put<'a>(words: impl IntoIterator<Item = &'a mut String>) {
    for text in words {
        if let Some(masked) = mask_text(text, &mut Masked::default()) {
            *text = masked;
        }
    }
}

/// Masks the keys of a map. What two keys hold that become one is put together.
pub(super) fn keys<V: Default>(map: &mut BTreeMap<String, V>, join: impl Fn(&mut V, &V)) {
    let masked = |key: &String| mask_text(key, &mut Masked::default());
    let found: Vec<_> = map
        .keys()
        .filter_map(|k| Some((k.clone(), masked(k)?)))
        .collect();
    for (key, masked) in found {
        if let Some(value) = map.remove(&key) {
            join(map.entry(masked).or_default(), &value);
        }
    }
}
