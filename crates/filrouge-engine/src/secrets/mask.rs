//! Replaces credentials with masks.

use std::collections::BTreeMap;
use std::ops::Range;

use super::scan::scan_complete;
use super::shape::Shape;
use super::verdict::CredentialMatch;

filrouge_types::words!(
    /// Treatment of a credential in a user's text or in a tool call.
    #[derive(Default)]
    pub enum CredentialPolicy: "policy of credentials" {
        /// It is masked, and the response says how many credentials were masked.
        #[default]
        Mask => "mask",
        /// The write is refused with `credential_refused`.
        Refuse => "refuse",
        /// It is recorded unchanged.
        Off => "off",
    }
);

/// Counts of masked credentials, by shape.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Masked {
    /// The total.
    pub count: u64,
    by_shape: BTreeMap<Shape, u64>,
}

impl Masked {
    pub(super) fn add(&mut self, shape: Shape, count: u64) {
        self.count += count;
        *self.by_shape.entry(shape).or_default() += count;
    }

    /// Adds the counts of `other`.
    pub(crate) fn join(&mut self, other: &Self) {
        for (shape, count) in &other.by_shape {
            self.add(*shape, *count);
        }
    }

    /// The names of the shapes that were masked, each with its count.
    pub fn by_shape(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.by_shape.iter().map(|(s, n)| (s.as_str(), *n))
    }
}

/// Masks the credentials in a text; `None` if there are none. The text may contain JSON, or be the inside of a JSON
/// string.
///
/// A credential becomes `[masked:NAME]`. Masking a masked text changes nothing. The masked credentials are added to
/// `counts`.
pub fn mask_text(text: &str, counts: &mut Masked) -> Option<String> {
    replace(text, &scan_complete(text), counts)
}

/// The byte ranges that [`mask_text`] would mask, in order and without overlaps. For callers that show an excerpt of a
/// text.
pub fn credentials(text: &str) -> Vec<Range<usize>> {
    scan_complete(text).iter().map(|m| m.start..m.end).collect()
}

/// The text with a mask in place of each match; `None` if there are none. The matches are added to `counts`.
pub(super) fn replace(
    text: &str,
    matches: &[CredentialMatch],
    counts: &mut Masked,
) -> Option<String> {
    if matches.is_empty() {
        return None;
    }
    let (mut output, mut copied) = (String::with_capacity(text.len()), 0);
    for found in matches {
        // A match begins and ends at character boundaries, because it consists of ASCII or is enclosed in ASCII.
        output.push_str(text.get(copied..found.start).unwrap_or_default());
        output.push_str(&found.shape.mask());
        counts.add(found.shape, 1);
        copied = found.end;
    }
    output.push_str(text.get(copied..).unwrap_or_default());
    Some(output)
}
