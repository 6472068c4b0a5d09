//! The types of parts that filrouge reads, and misspellings of them.
//!
//! Parts of other types are recorded as they are (DESIGN §3). Only a type that is nearly the name of a known one is
//! refused: such a part would be recorded, but never shown or sent to a model.

/// The types that callers may send and that filrouge reads (docs/context.md).
pub(crate) const KNOWN: [&str; 10] = [
    "text",
    "code",
    "image_url",
    "file",
    "link",
    "reasoning",
    "refusal",
    "tool_call",
    "tool_result",
    "error",
];

/// The known type of which `part_type` is probably a misspelling.
pub(crate) fn misspelled(part_type: &str) -> Option<&'static str> {
    if KNOWN.contains(&part_type) {
        return None;
    }
    KNOWN.into_iter().find(|known| is_near(part_type, known))
}

/// Whether two words differ only in case and separators, or by one typing error. In short words, another letter is no
/// error: `node` is not `code`.
fn is_near(word: &str, known: &str) -> bool {
    let plain = |word: &str| -> Vec<u8> {
        let bytes = word.bytes().filter(|b| !matches!(b, b'_' | b'-' | b' '));
        bytes.map(|b| b.to_ascii_lowercase()).collect()
    };
    let (word, known) = (plain(word), plain(known));
    let is_short = known.len() <= 5;
    let start = word.iter().zip(&known).take_while(|(a, b)| a == b).count();
    let (word, known) = (&word[start..], &known[start..]);
    let ends = word.iter().rev().zip(known.iter().rev());
    let end = ends.take_while(|(a, b)| a == b).count();
    match (&word[..word.len() - end], &known[..known.len() - end]) {
        ([], []) | ([_], []) | ([], [_]) => true,
        ([_], [_]) => !is_short,
        ([a, b], [c, d]) => (a, b) == (d, c),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspellings_of_known_types_are_recognized() {
        for (word, known) in [
            ("txt", "text"),
            ("texts", "text"),
            ("Text", "text"),
            ("tetx", "text"),
            ("imageUrl", "image_url"),
            ("image-url", "image_url"),
            ("tool_cal", "tool_call"),
            ("tool_calls", "tool_call"),
            ("tool_resalt", "tool_result"),
            ("eror", "error"),
        ] {
            assert_eq!(misspelled(word), Some(known), "{word}");
        }
        for word in KNOWN.into_iter().chain([
            "",
            "test",
            "node",
            "line",
            "image",
            "input_text",
            "tool_use",
            "tool_call_partial",
            "texture",
            "thinking",
            "é",
            "raw_event",
        ]) {
            assert_eq!(misspelled(word), None, "{word}");
        }
    }
}
