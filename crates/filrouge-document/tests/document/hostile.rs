//! The corpus of hostile texts: texts that try to break out of their place in an output, and to act there.

use std::collections::BTreeMap;

/// The texts of one list of the corpus: `texts`, in which `{BASE}` is an address that must never be requested, or
/// `lone_surrogates`, the contents of JSON strings with escapes of single surrogates.
pub(crate) fn corpus(list: &str) -> Vec<String> {
    let corpus = include_str!("../../../../tests/fixtures/hostile-text.json");
    let mut lists: BTreeMap<String, Vec<String>> = serde_json::from_str(corpus).unwrap();
    lists.remove(list).unwrap()
}
