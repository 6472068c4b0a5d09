//! A stranger's Markdown as a block quote that cannot leave its place.
//!
//! The text is parsed as it will stand; what would be HTML, a definition for the
//! whole document or a link that runs code gets a backslash, and the result is
//! parsed again until nothing is left to do. A text that does not settle is shown
//! in a code block.

use std::ops::Range;

use pulldown_cmark::{CowStr, Event, LinkType, Options, Parser, Tag};

use super::inline::fence;
use crate::text::{MAX_DEPTH, MAX_RICH, nests_too_deep, visible};
use crate::url;

/// How often a text is parsed before it is given up; each round can uncover what HTML had hidden.
const ROUNDS: usize = 8;

/// The block of a text.
pub(super) fn block(text: &str) -> String {
    let text = visible(text);
    if text.len() > MAX_RICH || nests_too_deep(&text) {
        return fence("", &text);
    }
    quoted(&text).unwrap_or_else(|| fence("", &text))
}

fn quoted(text: &str) -> Option<String> {
    let original = prefixed(text);
    if !original.contains(['<', '[']) {
        return Some(original);
    }
    let mut escapes: Vec<usize> = Vec::new();
    for _ in 0..ROUNDS {
        let candidate = with_escapes(&original, &escapes);
        let change = change(&candidate, &escapes)?;
        if change.add.is_empty() && change.remove.is_empty() {
            return Some(candidate);
        }
        let back = |at: usize| at - inserted_before(&escapes, at);
        let mut next: Vec<usize> = change.add.into_iter().map(back).collect();
        let kept = escapes
            .iter()
            .enumerate()
            .filter(|(i, _)| !change.remove.contains(i));
        next.extend(kept.map(|(_, at)| *at));
        next.sort_unstable();
        next.dedup();
        escapes = next;
    }
    None
}

/// The text as the lines of a block quote. Tabs at a line's start become spaces: behind the quote's sign
/// they would reach less far.
fn prefixed(text: &str) -> String {
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
fn with_escapes(original: &str, escapes: &[usize]) -> String {
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

/// How many inserted backslashes stand before `at` of the text that has them.
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

/// What a round found.
#[derive(Debug, Default)]
struct Change {
    /// Positions in the candidate that need a backslash.
    add: Vec<usize>,
    /// Indices of backslashes that turned out to stand in code.
    remove: std::collections::HashSet<usize>,
}

impl Change {
    /// Escapes the sign at `at`, unless a backslash does so already.
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

    /// Escapes what could begin a tag, a comment or a footnote in `range`.
    fn escape_openings(&mut self, text: &str, range: Range<usize>) {
        let bytes = text.as_bytes();
        for at in range {
            let next = bytes.get(at + 1).copied().unwrap_or_default();
            let opens = match bytes[at] {
                b'<' => next.is_ascii_alphabetic() || matches!(next, b'/' | b'!' | b'?'),
                b'[' => next == b'^',
                _ => false,
            };
            if opens {
                self.escape(text, at);
            }
        }
    }

    /// Takes back what was inserted in `code`.
    fn unescape(&mut self, escapes: &[usize], code: Range<usize>) {
        let first = inserted_before(escapes, code.start);
        self.remove
            .extend(first..inserted_before(escapes, code.end));
    }
}

/// Parses `candidate`; `None` when it nests too deep.
fn change(candidate: &str, escapes: &[usize]) -> Option<Change> {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_FOOTNOTES;
    let parser = Parser::new_ext(candidate, options);
    let mut found = Change::default();
    for (_, definition) in parser.reference_definitions().iter() {
        if let Some(at) = candidate[definition.span.clone()].find('[') {
            found.escape(candidate, definition.span.start + at);
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
                match tag {
                    Tag::CodeBlock(_) => {
                        in_code = true;
                        found.unescape(escapes, range);
                    }
                    Tag::Link {
                        link_type,
                        dest_url,
                        ..
                    } => {
                        address(&mut found, candidate, range.start, link_type, &dest_url);
                    }
                    Tag::Image {
                        link_type,
                        dest_url,
                        ..
                    } => {
                        address(&mut found, candidate, range.start + 1, link_type, &dest_url);
                    }
                    Tag::FootnoteDefinition(_) => found.escape(candidate, range.start),
                    _ => {}
                }
            }
            Event::End(tag) => {
                depth -= 1;
                in_code &= !matches!(tag, pulldown_cmark::TagEnd::CodeBlock);
            }
            Event::Code(_) => found.unescape(escapes, range),
            Event::Text(_) | Event::Html(_) | Event::InlineHtml(_) if !in_code => {
                found.escape_openings(candidate, range);
            }
            Event::FootnoteReference(_) => found.escape(candidate, range.start),
            _ => {}
        }
    }
    Some(found)
}

/// Escapes the sign at `at` that opens a link, unless the link may stay.
fn address(found: &mut Change, text: &str, at: usize, link: LinkType, target: &CowStr<'_>) {
    if link != LinkType::Email && !url::harmless(target) {
        found.escape(text, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_texts_are_quoted_as_they_are() {
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
    fn what_is_too_deep_or_does_not_settle_is_code() {
        assert!(block(&">".repeat(10_000)).starts_with("```\n>>>"));
        let many: String = (0..50).map(|i| format!("[a]: /{i}\n\n")).collect();
        assert!(block(&many).starts_with("```\n[a]: /0"));
    }
}
