//! The positions of a bundle's pieces, found without the code under test.

use std::ops::Range;

use serde_json::value::RawValue;

/// The byte ranges of a bundle's pieces.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) session: Range<usize>,
    pub(crate) turns: Vec<Range<usize>>,
    pub(crate) items: Vec<Range<usize>>,
    pub(crate) head: Range<usize>,
    /// The range includes the quotes.
    pub(crate) signature: Range<usize>,
}

/// The JSON value at `at`.
fn value(text: &str, at: usize) -> Range<usize> {
    let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<&RawValue>();
    let raw = values.next().unwrap().unwrap();
    at..at + raw.get().len()
}

/// The values of the JSON list at `at`, and the position of its end.
fn list(text: &str, at: usize) -> (Vec<Range<usize>>, usize) {
    let mut values = Vec::new();
    if text[at..].starts_with("[]") {
        return (values, at + 2);
    }
    let mut next = at + 2;
    loop {
        let value = value(text, next);
        next = value.end + 2;
        let has_more = &text[value.end..next] == ",\n";
        values.push(value);
        if !has_more {
            return (values, next);
        }
    }
}

impl Layout {
    pub(crate) fn parse(text: &str) -> Self {
        let skip_name = |at: usize, name: &str| {
            let opening = format!("\n\"{name}\":");
            let at = at + 1;
            assert!(text[at..].starts_with(&opening), "{name} at {at}: {text}");
            at + opening.len()
        };
        let session = value(text, skip_name("{\"filrouge_bundle\":1".len(), "session"));
        let (turns, end) = list(text, skip_name(session.end, "turns"));
        let (items, end) = list(text, skip_name(end, "items"));
        let checkpoints = value(text, skip_name(end, "checkpoints"));
        let head = value(text, skip_name(checkpoints.end, "head"));
        let signature = value(text, skip_name(head.end, "signature"));
        assert_eq!(&text[signature.end..], "}\n");
        Self {
            session,
            turns,
            items,
            head,
            signature,
        }
    }

    /// The text with the pieces `a` and `b` swapped.
    pub(crate) fn swapped(text: &str, a: &Range<usize>, b: &Range<usize>) -> String {
        [
            &text[..a.start],
            &text[b.clone()],
            &text[a.end..b.start],
            &text[a.clone()],
            &text[b.end..],
        ]
        .concat()
    }

    /// The text without piece number `n` of `list`.
    pub(crate) fn without(text: &str, list: &[Range<usize>], n: usize) -> String {
        let (from, to) = match (list.get(n + 1), n.checked_sub(1)) {
            (Some(next), _) => (list[n].start, next.start),
            (None, Some(previous)) => (list[previous].end, list[n].end),
            // The only piece, with the line feeds of its list.
            (None, None) => (list[n].start - 1, list[n].end + 1),
        };
        [&text[..from], &text[to..]].concat()
    }

    /// The text with a piece duplicated directly after itself.
    pub(crate) fn duplicated(text: &str, piece: &Range<usize>) -> String {
        let (end, copy) = (piece.end, &text[piece.clone()]);
        [&text[..end], ",\n", copy, &text[end..]].concat()
    }
}
