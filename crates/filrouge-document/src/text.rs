//! Text as it may be shown.

use std::borrow::Cow;

use crate::data::told;

/// A longer text is shown as it is, without reading its Markdown.
pub(crate) const MAX_RICH: usize = 1 << 20;

/// Tags of a text's Markdown that may lie in one another; browsers and readers nest little more.
pub(crate) const MAX_DEPTH: usize = 64;

/// The text as it may be shown: its data told by size, its control characters visible.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    match told(text) {
        Cow::Borrowed(text) => without_controls(text),
        Cow::Owned(text) => Cow::Owned(without_controls(&text).into_owned()),
    }
}

/// Makes control characters visible as U+FFFD; tabs stay, line ends become line feeds.
pub(crate) fn without_controls(text: &str) -> Cow<'_, str> {
    let bad = |c: char| c.is_control() && c != '\t' && c != '\n';
    // The control characters beyond ASCII begin with the byte C2 in UTF-8.
    let suspect = |b: u8| matches!(b, 0..=8 | 11..=31 | 0x7F | 0xC2);
    if !text.bytes().any(suspect) || !text.contains(bad) {
        return Cow::Borrowed(text);
    }
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    Cow::Owned(text.replace(bad, "\u{fffd}"))
}

/// The text on one line, cut after `max` characters.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let mut line = String::new();
    let mut count = 0;
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    for word in words.filter(|w| !w.is_empty()) {
        if count > 0 {
            line.push(' ');
            count += 1;
        }
        for c in word.chars() {
            if count >= max {
                line.push('…');
                return line;
            }
            line.push(c);
            count += 1;
        }
    }
    line
}

/// Whether a line opens more quotes and lists than are read; reading them takes time that grows with the square.
pub(crate) fn nests_too_deep(text: &str) -> bool {
    text.lines().any(|line| {
        let opening = |c: char| {
            matches!(c, '>' | '-' | '+' | '*' | '.' | ')' | ' ' | '\t') || c.is_ascii_digit()
        };
        let lead = line.find(|c| !opening(c)).unwrap_or(line.len());
        let deep = |c: &u8| matches!(c, b'>' | b'-' | b'+' | b'*' | b'.' | b')');
        // A line of nothing but these is a rule across the page.
        let rule = |c: &u8| matches!(c, b'-' | b'*' | b' ' | b'\t');
        let is_rule = line.bytes().all(|c| rule(&c));
        let lead = &line.as_bytes()[..lead];
        !is_rule && lead.iter().filter(|c| deep(c)).count() > MAX_DEPTH
    })
}

/// A change of direction that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Embedding,
    Isolate,
}

/// Closes what the text leaves open of changes of direction and shows as U+FFFD what would close more than
/// it opened (Unicode Standard Annex 9, X1–X8). An isolating element alone does not do: a browser ends it
/// with the same character that text can hold, so that either could take the other's.
pub(crate) fn balanced(text: &str) -> Cow<'_, str> {
    let changes = |c: char| matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    if !text.as_bytes().contains(&0xE2) || !text.contains(changes) {
        return Cow::Borrowed(text);
    }
    let (mut out, mut open) = (String::with_capacity(text.len() + 8), Vec::new());
    let mut isolates = 0_usize;
    for c in text.chars() {
        let mut shown = c;
        match c {
            '\u{202A}' | '\u{202B}' | '\u{202D}' | '\u{202E}' => open.push(Direction::Embedding),
            '\u{2066}'..='\u{2068}' => {
                open.push(Direction::Isolate);
                isolates += 1;
            }
            '\u{202C}' if open.last() == Some(&Direction::Embedding) => {
                open.pop();
            }
            '\u{2069}' if isolates > 0 => {
                while open.pop() == Some(Direction::Embedding) {}
                isolates -= 1;
            }
            c if changes(c) => shown = '\u{fffd}',
            _ => {}
        }
        out.push(shown);
    }
    let closing = |d: &Direction| {
        if *d == Direction::Isolate {
            '\u{2069}'
        } else {
            '\u{202C}'
        }
    };
    out.extend(open.iter().rev().map(closing));
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_seen() {
        assert_eq!(
            visible("a\0b\u{1b}[1m\u{7f}\u{85}"),
            "a\u{fffd}b\u{fffd}[1m\u{fffd}\u{fffd}"
        );
        assert_eq!(visible("a\r\nb\rc\n\td"), "a\nb\nc\n\td");
        assert!(matches!(visible("plain\n\ttext"), Cow::Borrowed(_)));
    }

    #[test]
    fn one_line_cuts_by_characters() {
        assert_eq!(one_line(" é\n\tè\u{0} z ", 10), "é è z");
        assert_eq!(one_line("ééééé", 3), "ééé…");
        assert_eq!(one_line("abc", 3), "abc");
    }

    #[test]
    fn depth_is_guessed_from_openings_only() {
        assert!(nests_too_deep(&">".repeat(100)));
        assert!(nests_too_deep(&format!("{}x", "- ".repeat(100))));
        assert!(nests_too_deep(&format!("a\n{}", "1. ".repeat(100))));
        assert!(!nests_too_deep(&"-".repeat(500)));
        assert!(!nests_too_deep(&format!(
            "{}\n{}",
            "* ".repeat(90),
            "=".repeat(200)
        )));
        assert!(!nests_too_deep("> - 1. x > > >"));
    }

    #[test]
    fn directions_end_where_they_began() {
        assert_eq!(
            balanced("a\u{202E}b\u{2067}c"),
            "a\u{202E}b\u{2067}c\u{2069}\u{202C}"
        );
        assert_eq!(
            balanced("\u{2067}\u{202D}x\u{2069}y"),
            "\u{2067}\u{202D}x\u{2069}y"
        );
        assert_eq!(balanced("\u{2069}\u{202C}"), "\u{fffd}\u{fffd}");
        assert_eq!(
            balanced("\u{202B}\u{2066}\u{202C}"),
            "\u{202B}\u{2066}\u{fffd}\u{2069}\u{202C}"
        );
        assert!(matches!(balanced("… “plain” €"), Cow::Borrowed(_)));
    }
}
