//! Renders untrusted Markdown as a block quote that it cannot close.
//!
//! The text is parsed in its quoted form. HTML, link definitions (which affect the entire document), links that run
//! code and images (which a viewer would load) get a backslash, and the result is parsed again until no change is
//! needed. So an image becomes a link. A text that nests too deep, or needs changes after `MAX_ROUNDS` rounds, is shown
//! in a code block.

use std::ops::Range;

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag};

use super::inline::code_block;
use crate::text::{MAX_DEPTH, MAX_MARKDOWN_BYTES, nests_too_deep, sanitize};
use crate::url;

/// The maximum number of parses before a text is shown as code. Several can be necessary: once HTML is escaped, the
/// next parse can find markup that the HTML had hidden.
const MAX_ROUNDS: usize = 8;

/// Renders a text as a block quote, or as a code block if it is too long, nests too deep or needs too many rounds.
pub(super) fn block(text: &str) -> String {
    let text = sanitize(text);
    if text.len() > MAX_MARKDOWN_BYTES || nests_too_deep(&text) {
        return code_block("", &text);
    }
    try_quote(&text).unwrap_or_else(|| code_block("", &text))
}

/// The block quote of a text; `None` if the text nests too deep or needs changes after [`MAX_ROUNDS`] rounds.
fn try_quote(text: &str) -> Option<String> {
    let original = prefix_lines(text);
    if !original.contains(['<', '[']) {
        return Some(original);
    }
    let mut escapes: Vec<usize> = Vec::new();
    for _ in 0..MAX_ROUNDS {
        let candidate = insert_escapes(&original, &escapes);
        let changes = required_changes(&candidate, &escapes)?;
        if changes.add.is_empty() && changes.remove.is_empty() {
            return Some(candidate);
        }
        let original_position = |at: usize| at - inserted_before(&escapes, at);
        let mut next: Vec<usize> = changes.add.into_iter().map(original_position).collect();
        let old = escapes.iter().enumerate();
        let kept = old.filter(|(i, _)| !changes.remove.contains(i));
        next.extend(kept.map(|(_, at)| *at));
        next.sort_unstable();
        next.dedup();
        escapes = next;
    }
    None
}

/// The text as lines of a block quote. Tabs at the start of a line become spaces, because a tab after the quote marker
/// would be narrower.
fn prefix_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16 + 8);
    let text = text.strip_suffix('\n').unwrap_or(text);
    for line in text.split('\n') {
        out.push('>');
        let body = line.trim_start_matches([' ', '\t']);
        let lead = &line[..line.len() - body.len()];
        let width = lead
            .chars()
            .fold(0, |w, c| if c == '\t' { w / 4 * 4 + 4 } else { w + 1 });
        if !body.is_empty() {
            out.extend(std::iter::repeat_n(' ', width + 1));
            out.push_str(body);
        }
        out.push('\n');
    }
    out
}

/// `original` with a backslash before each of the ascending positions `escapes`.
fn insert_escapes(original: &str, escapes: &[usize]) -> String {
    let mut out = String::with_capacity(original.len() + escapes.len());
    let mut from = 0;
    for at in escapes {
        out.push_str(&original[from..*at]);
        out.push('\\');
        from = *at;
    }
    out.push_str(&original[from..]);
    out
}

/// The number of inserted backslashes before the position `at` of the escaped text. `escapes` are positions in the
/// original text.
fn inserted_before(escapes: &[usize], at: usize) -> usize {
    let (mut low, mut high) = (0, escapes.len());
    while low < high {
        let middle = usize::midpoint(low, high);
        if escapes[middle] + middle < at {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// The changes that one parse requires.
#[derive(Debug, Default)]
struct EscapeChanges {
    /// Positions in the candidate that need a backslash.
    add: Vec<usize>,
    /// Indices, in `escapes`, of backslashes that turned out to be in code, where they would be visible.
    remove: std::collections::HashSet<usize>,
}

impl EscapeChanges {
    /// Escapes the character at `at`, unless a backslash before it already does.
    fn escape(&mut self, text: &str, at: usize) {
        let slashes = text.as_bytes()[..at]
            .iter()
            .rev()
            .take_while(|b| **b == b'\\')
            .count();
        if slashes % 2 == 0 {
            self.add.push(at);
        }
    }

    /// Escapes those characters in `range` that could begin a tag, a comment, a footnote or, for some parsers, an
    /// image.
    fn escape_openings(&mut self, text: &str, range: Range<usize>) {
        let bytes = text.as_bytes();
        for at in range {
            let next = bytes.get(at + 1).copied().unwrap_or_default();
            let can_open = match bytes[at] {
                b'<' => next.is_ascii_alphabetic() || matches!(next, b'/' | b'!' | b'?'),
                b'[' => next == b'^',
                b'!' => next == b'[',
                _ => false,
            };
            if can_open {
                self.escape(text, at);
            }
        }
    }

    /// Marks for removal the backslashes that were inserted in the range `code`.
    fn remove_escapes(&mut self, escapes: &[usize], code: Range<usize>) {
        let first = inserted_before(escapes, code.start);
        self.remove
            .extend(first..inserted_before(escapes, code.end));
    }
}

/// Parses `candidate` and returns the required changes; `None` when it nests too deep.
fn required_changes(candidate: &str, escapes: &[usize]) -> Option<EscapeChanges> {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_FOOTNOTES;
    let parser = Parser::new_ext(candidate, options);
    let mut changes = EscapeChanges::default();
    for (_, definition) in parser.reference_definitions().iter() {
        if let Some(at) = candidate[definition.span.clone()].find('[') {
            changes.escape(candidate, definition.span.start + at);
        }
    }
    let (mut depth, mut in_code) = (0_usize, false);
    for (event, range) in parser.into_offset_iter() {
        match event {
            Event::Start(tag) => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return None;
                }
                let is_image = matches!(tag, Tag::Image { .. });
                match tag {
                    Tag::CodeBlock(_) => {
                        in_code = true;
                        changes.remove_escapes(escapes, range);
                    }
                    Tag::Link {
                        link_type,
                        dest_url,
                        ..
                    }
                    | Tag::Image {
                        link_type,
                        dest_url,
                        ..
                    } if link_type != LinkType::Email && !url::is_harmless(&dest_url) => {
                        // The bracket of an image follows a `!`.
                        changes.escape(candidate, range.start + usize::from(is_image));
                    }
                    Tag::Image { .. } | Tag::FootnoteDefinition(_) => {
                        changes.escape(candidate, range.start);
                    }
                    _ => {}
                }
            }
            Event::End(tag) => {
                depth -= 1;
                in_code &= !matches!(tag, pulldown_cmark::TagEnd::CodeBlock);
            }
            Event::Code(_) => changes.remove_escapes(escapes, range),
            Event::Text(_) | Event::Html(_) | Event::InlineHtml(_) if !in_code => {
                changes.escape_openings(candidate, range);
            }
            Event::FootnoteReference(_) => changes.escape(candidate, range.start),
            _ => {}
        }
    }
    Some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_texts_are_quoted_unchanged() {
        assert_eq!(block("# a\n\n```\nb"), "> # a\n>\n> ```\n> b\n");
        assert_eq!(block(""), ">\n");
        assert_eq!(block("\tcode\n"), ">     code\n");
    }

    #[test]
    fn html_is_inert_outside_code_only() {
        assert_eq!(
            block("a <b>x</b> `<i>` \\<u> 1<2"),
            "> a \\<b>x\\</b> `<i>` \\<u> 1<2\n"
        );
        assert_eq!(
            block("<div>\n```\n<script>\n```\n<!-- x"),
            "> \\<div>\n> ```\n> <script>\n> ```\n> \\<!-- x\n"
        );
        assert_eq!(block("<https://a.b>"), "> <https://a.b>\n");
    }

    #[test]
    fn links_that_run_code_and_definitions_are_text() {
        assert_eq!(
            block("[a](javascript:x) [b](https://c)"),
            "> \\[a](javascript:x) [b](https://c)\n"
        );
        assert_eq!(
            block("![a](data:text/html,x)"),
            "> !\\[a](data:text/html,x)\n"
        );
        assert_eq!(block("<javascript:x>"), "> \\<javascript:x>\n");
        assert_eq!(
            block("[a]\n\n[a]: /x\n[^1]: y"),
            "> [a]\n>\n> \\[a]: /x\n> \\[^1]: y\n"
        );
    }

    #[test]
    fn images_are_links() {
        assert_eq!(
            block("![a](https://b/c.png) `![d](e)` [![f](g)](https://h)"),
            "> \\![a](https://b/c.png) `![d](e)` [\\![f](g)](https://h)\n"
        );
        // Parsers differ in what they accept as an image.
        assert_eq!(
            block("![a](b c) ![[d]] \\![e](f) !\n["),
            "> \\![a](b c) \\![[d]] \\![e](f) !\n> [\n"
        );
        assert_eq!(
            block("![a]\n\n[a]: https://b"),
            "> \\![a]\n>\n> \\[a]: https://b\n"
        );
    }

    #[test]
    fn text_that_nests_too_deep_or_needs_too_many_rounds_is_code() {
        assert!(block(&">".repeat(10_000)).starts_with("```\n>>>"));
        let many: String = (0..50).map(|i| format!("[a]: /{i}\n\n")).collect();
        assert!(block(&many).starts_with("```\n[a]: /0"));
    }
}
