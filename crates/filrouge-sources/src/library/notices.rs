//! Notices: texts of an answer that say what was left out, in filrouge's own wording.
//!
//! Notices never contain foreign text, because readers trust them as filrouge's. Paths are quoted.

use std::collections::BTreeMap;

use super::Catalog;
use crate::{SkipReason, Skipped};

/// Notices about what the sources of a catalog could not list.
pub fn of_catalog(catalog: &Catalog) -> Vec<String> {
    let mut notices = of_skipped(&catalog.skipped);
    for source in &catalog.unavailable {
        notices.push(format!("a source cannot be listed: {source}"));
    }
    if catalog.truncated {
        notices.push("a source has more sessions than are listed".to_owned());
    }
    notices.extend(of_count(
        catalog.shadowed.len(),
        "1 session is stored twice; the newer storage is read",
        "sessions are stored twice; the newer storage is read",
    ));
    notices
}

/// One notice for each reason: the number of records that were left out, and one example.
pub fn of_skipped(skipped: &[Skipped]) -> Vec<String> {
    let mut by_reason: BTreeMap<SkipReason, (usize, &Skipped)> = BTreeMap::new();
    for one in skipped {
        by_reason.entry(one.reason).or_insert((0, one)).0 += 1;
    }
    let notices = by_reason.into_iter().map(|(reason, (count, first))| {
        let example = if count == 1 { "" } else { "for example " };
        format!("left out as {reason}: {count} ({example}{:?})", first.path)
    });
    notices.collect()
}

/// A notice about `n` records, with the text for one and, after their number, the text for several.
pub(super) fn of_count(n: usize, singular: &str, plural: &str) -> Option<String> {
    match n {
        0 => None,
        1 => Some(singular.to_owned()),
        n => Some(format!("{n} {plural}")),
    }
}
