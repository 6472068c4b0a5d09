//! Putting a mask in a credential's place.

use std::collections::BTreeMap;
use std::ops::Range;

use super::read::Text;
use super::scan::scan;
use super::shape::Shape;
use super::verdict::Found;

filrouge_types::words!(
    /// What is done with a credential that a user or a tool call holds.
    #[derive(Default)]
    pub enum CredentialPolicy: "policy of credentials" {
        /// It is masked, and the write says how many were.
        #[default]
        Mask => "mask",
        /// The write is refused with `credential_refused`.
        Refuse => "refuse",
        /// It is recorded.
        Off => "off",
    }
);

/// How many credentials were masked, by the name of their shape.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Masked {
    /// All of them.
    pub count: u64,
    by_shape: BTreeMap<Shape, u64>,
}

impl Masked {
    pub(super) fn add(&mut self, shape: Shape) {
        self.add_many(shape, 1);
    }

    pub(super) fn add_many(&mut self, shape: Shape, count: u64) {
        if count > 0 {
            self.count += count;
            *self.by_shape.entry(shape).or_default() += count;
        }
    }

    /// Counts what was masked elsewhere, too.
    pub(crate) fn join(&mut self, other: &Self) {
        for (shape, count) in other.shapes() {
            self.add_many(shape, count);
        }
    }

    /// Names of shapes with how many had each.
    pub fn by_shape(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.by_shape.iter().map(|(s, n)| (s.name(), *n))
    }

    pub(super) fn shapes(&self) -> impl Iterator<Item = (Shape, u64)> {
        self.by_shape.iter().map(|(s, n)| (*s, *n))
    }
}

/// Masks the credentials in a text, which may hold JSON or be the inside of a JSON string; `None` when it has none.
///
/// A masked one becomes `[masked:NAME]`. Masking a masked text changes nothing.
#[must_use]
pub fn mask_text(text: &str, found: &mut Masked) -> Option<String> {
    let whole = Text {
        bytes: text.as_bytes(),
        whole: true,
    };
    let (all, _) = scan(whole, 0);
    replace(text, &all, found)
}

/// Where [`mask_text`] would put a mask: in bytes, in order, none over another. For who shows a cutting of a text.
#[must_use]
pub fn credentials(text: &str) -> Vec<Range<usize>> {
    let whole = Text {
        bytes: text.as_bytes(),
        whole: true,
    };
    let (all, _) = scan(whole, 0);
    all.iter().map(|one| one.start..one.end).collect()
}

/// The text with a mask in each place; `None` when there is none.
pub(super) fn replace(text: &str, all: &[Found], found: &mut Masked) -> Option<String> {
    if all.is_empty() {
        return None;
    }
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for one in all {
        // Shapes begin and end between characters: what they are made of is ASCII, or goes up to ASCII.
        out.push_str(text.get(at..one.start).unwrap_or_default());
        out.push_str(one.shape.mask());
        found.add(one.shape);
        at = one.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    Some(out)
}
