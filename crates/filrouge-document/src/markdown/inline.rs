//! Renders names and values inside a line of the document's own text.

use crate::text::{close_direction_changes, one_line, sanitize};
use crate::url;

/// The maximum length of a value inside a line, in characters.
const MAX_LINE_CHARS: usize = 4_096;

/// A value as plain text on one line; characters that have a meaning in Markdown are escaped.
pub(super) fn escape_line(text: &str) -> String {
    let line = one_line(&sanitize(text), MAX_LINE_CHARS);
    let line = close_direction_changes(&line);
    let mut out = String::with_capacity(line.len() + 8);
    for c in line.chars() {
        if "\\`*_{}[]<>#!|~&$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A value as code on one line.
pub(super) fn inline_code(text: &str) -> String {
    let line = one_line(&sanitize(text), MAX_LINE_CHARS);
    let line = close_direction_changes(&line);
    if line.is_empty() {
        return "(empty)".to_owned();
    }
    let fence = "`".repeat(longest_run(&line, b'`') + 1);
    let touches_fence = line.starts_with('`') || line.ends_with('`');
    let pad = if touches_fence { " " } else { "" };
    format!("{fence}{pad}{line}{pad}{fence}")
}

/// A link, or only its label and address when the address may not be followed.
pub(super) fn link(label: &str, address: &str) -> String {
    let Some(target) = url::followable(address) else {
        let name = url::label(address);
        return if label == name {
            inline_code(&name)
        } else {
            format!("{} ({})", escape_line(label), inline_code(&name))
        };
    };
    let mut escaped = String::with_capacity(target.len());
    for c in target.chars() {
        match c {
            '<' => escaped.push_str("%3C"),
            '>' => escaped.push_str("%3E"),
            '\\' => escaped.push_str("%5C"),
            '&' => escaped.push_str("\\&"),
            c if c.is_whitespace() => escaped.push_str("%20"),
            c => escaped.push(c),
        }
    }
    format!("[{}](<{escaped}>)", escape_line(label))
}

/// A code block whose fence is longer than any fence in the text.
pub(super) fn code_block(language: &str, text: &str) -> String {
    let text = sanitize(text);
    let fence = "`".repeat((longest_run(&text, b'`') + 1).max(3));
    let is_allowed =
        |c: &char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '_' | '.' | '#');
    let language: String = language.chars().take(40).filter(is_allowed).collect();
    let is_ended = text.is_empty() || text.ends_with('\n');
    let end = if is_ended { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}\n")
}

fn longest_run(text: &str, symbol: u8) -> usize {
    let (mut longest, mut run) = (0, 0);
    for byte in text.bytes() {
        run = if byte == symbol { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_on_their_line() {
        assert_eq!(
            escape_line("a\n# b <i>*c* [x](y)"),
            "a \\# b \\<i\\>\\*c\\* \\[x\\](y)"
        );
        assert_eq!(escape_line("x\u{202E}y"), "x\u{202E}y\u{202C}");
        assert_eq!(inline_code("a`b``"), "``` a`b`` ```");
        assert_eq!(inline_code("\n"), "(empty)");
    }

    #[test]
    fn only_safe_schemes_become_links() {
        assert_eq!(
            link("a]b", "https://h/<x> y"),
            "[a\\]b](<https://h/%3Cx%3E%20y>)"
        );
        assert_eq!(link("a", "javascript:x"), "a (`javascript:x`)");
    }

    #[test]
    fn fences_are_longer_than_those_inside() {
        assert_eq!(
            code_block("rust`\n# x", "a\n````\nb"),
            "`````rust#x\na\n````\nb\n`````\n"
        );
        assert_eq!(code_block("", ""), "```\n```\n");
    }
}
