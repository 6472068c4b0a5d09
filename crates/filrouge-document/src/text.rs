//! Makes text safe to show.

use std::borrow::Cow;

use crate::data::replace_data;

/// The maximum size, in bytes, of a text that is rendered as Markdown; a longer one is shown verbatim.
pub(crate) const MAX_MARKDOWN_BYTES: usize = 1 << 20;

/// The maximum nesting depth of Markdown; browsers and readers support little more.
pub(crate) const MAX_DEPTH: usize = 64;

/// The text in the form that documents show: long base64 and `data:` addresses are replaced by their size, control
/// characters and line separators by U+FFFD.
pub(crate) fn sanitize(text: &str) -> Cow<'_, str> {
    match replace_data(text) {
        Cow::Borrowed(text) => without_controls(text),
        Cow::Owned(text) => Cow::Owned(without_controls(&text).into_owned()),
    }
}

/// Makes control characters visible as U+FFFD, and the line and paragraph separators, after which an editor or a model
/// could read the text as outside its quote. Tabs are kept; line endings become line feeds.
pub(crate) fn without_controls(text: &str) -> Cow<'_, str> {
    let is_replaced_control = |c: char| match c {
        '\t' | '\n' => false,
        c => c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'),
    };
    // The control characters beyond ASCII begin with the byte C2 in UTF-8, the separators with E2.
    let may_be_control = |b: u8| matches!(b, 0..=8 | 11..=31 | 0x7F | 0xC2 | 0xE2);
    if !text.bytes().any(may_be_control) || !text.contains(is_replaced_control) {
        return Cow::Borrowed(text);
    }
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    Cow::Owned(text.replace(is_replaced_control, "\u{fffd}"))
}

/// The text on one line; after `max` characters it is cut and ends with `…`.
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

/// Whether a line opens more quotes and lists than [`MAX_DEPTH`]; the time to parse them would grow quadratically.
pub(crate) fn nests_too_deep(text: &str) -> bool {
    text.lines().any(|line| {
        let is_opening = |c: char| {
            matches!(c, '>' | '-' | '+' | '*' | '.' | ')' | ' ' | '\t') || c.is_ascii_digit()
        };
        let lead = line.find(|c| !is_opening(c)).unwrap_or(line.len());
        let is_nesting = |c: &u8| matches!(c, b'>' | b'-' | b'+' | b'*' | b'.' | b')');
        // A line of only these characters is a thematic break, not a nested list.
        let is_rule_char = |c: &u8| matches!(c, b'-' | b'*' | b' ' | b'\t');
        let is_rule = line.bytes().all(|c| is_rule_char(&c));
        let lead = &line.as_bytes()[..lead];
        !is_rule && lead.iter().filter(|c| is_nesting(c)).count() > MAX_DEPTH
    })
}

/// The character that closes an embedding or an override of the text direction.
const CLOSE_EMBEDDING: char = '\u{202C}';
/// The character that closes an isolate.
const CLOSE_ISOLATE: char = '\u{2069}';

/// Closes the changes of text direction that the text leaves open, and replaces closing characters without an opening
/// one by U+FFFD (Unicode Standard Annex 9, X1–X8). An isolating element such as `bdi` does not suffice: to the browser
/// it is a pair of the same characters, so a closing character in the text could end the element's isolation.
pub(crate) fn close_direction_changes(text: &str) -> Cow<'_, str> {
    let is_direction_change =
        |c: char| matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    if !text.as_bytes().contains(&0xE2) || !text.contains(is_direction_change) {
        return Cow::Borrowed(text);
    }
    // `open` has the closing characters of the open changes.
    let (mut out, mut open) = (String::with_capacity(text.len() + 8), Vec::new());
    let mut isolates = 0_usize;
    for c in text.chars() {
        let mut shown = c;
        match c {
            '\u{202A}' | '\u{202B}' | '\u{202D}' | '\u{202E}' => open.push(CLOSE_EMBEDDING),
            '\u{2066}'..='\u{2068}' => {
                open.push(CLOSE_ISOLATE);
                isolates += 1;
            }
            CLOSE_EMBEDDING if open.last() == Some(&c) => {
                open.pop();
            }
            CLOSE_ISOLATE if isolates > 0 => {
                while open.pop() == Some(CLOSE_EMBEDDING) {}
                isolates -= 1;
            }
            c if is_direction_change(c) => shown = '\u{fffd}',
            _ => {}
        }
        out.push(shown);
    }
    out.extend(open.iter().rev());
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_visible() {
        assert_eq!(
            sanitize("a\0b\u{1b}[1m\u{7f}\u{85}"),
            "a\u{fffd}b\u{fffd}[1m\u{fffd}\u{fffd}"
        );
        assert_eq!(sanitize("a\r\nb\rc\n\td"), "a\nb\nc\n\td");
        assert_eq!(sanitize("a\u{2028}b\u{2029}“"), "a\u{fffd}b\u{fffd}“");
        assert!(matches!(sanitize("plain\n\ttext"), Cow::Borrowed(_)));
    }

    #[test]
    fn one_line_cuts_by_characters() {
        assert_eq!(one_line(" é\n\tè\u{0} z ", 10), "é è z");
        assert_eq!(one_line("ééééé", 3), "ééé…");
        assert_eq!(one_line("abc", 3), "abc");
    }

    #[test]
    fn depth_is_estimated_from_opening_characters() {
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
    fn direction_changes_end_in_the_text_that_opened_them() {
        assert_eq!(
            close_direction_changes("a\u{202E}b\u{2067}c"),
            "a\u{202E}b\u{2067}c\u{2069}\u{202C}"
        );
        assert_eq!(
            close_direction_changes("\u{2067}\u{202D}x\u{2069}y"),
            "\u{2067}\u{202D}x\u{2069}y"
        );
        assert_eq!(
            close_direction_changes("\u{2069}\u{202C}"),
            "\u{fffd}\u{fffd}"
        );
        assert_eq!(
            close_direction_changes("\u{202B}\u{2066}\u{202C}"),
            "\u{202B}\u{2066}\u{fffd}\u{2069}\u{202C}"
        );
        assert!(matches!(
            close_direction_changes("… “plain” €"),
            Cow::Borrowed(_)
        ));
    }
}
