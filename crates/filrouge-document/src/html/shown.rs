//! Strings as content of HTML elements and attributes.

use maud::{Markup, PreEscaped, Render};

use super::rich::rich;
use crate::text::{balanced, visible};

/// Appends `text` escaped for content and for attributes in double quotes.
pub(super) fn escape(text: &str, out: &mut String) {
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let entity = match byte {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            _ => continue,
        };
        out.push_str(&text[from..at]);
        out.push_str(entity);
        from = at + 1;
    }
    out.push_str(&text[from..]);
}

/// A stranger's words within a line: control characters made visible, changes of direction closed.
pub(super) struct Shown<'a>(pub(super) &'a str);

impl Render for Shown<'_> {
    fn render_to(&self, out: &mut String) {
        escape(&balanced(&visible(self.0)), out);
    }
}

/// A stranger's Markdown.
pub(super) struct Rich<'a>(pub(super) &'a str);

impl Render for Rich<'_> {
    fn render_to(&self, out: &mut String) {
        rich(self.0, out);
    }
}

/// A code block; the language is told above it.
pub(super) fn listing(language: &str, text: &str) -> Markup {
    let mut out = String::with_capacity(text.len() + text.len() / 16 + 64);
    out.push_str("<pre dir=\"ltr\"><code");
    if !language.is_empty() {
        out.push_str(" data-language=\"");
        escape(&visible(language), &mut out);
        out.push('"');
    }
    out.push('>');
    escape(&visible(text), &mut out);
    out.push_str("</code></pre>");
    PreEscaped(out)
}

/// Appends an image of a checked `data:` address.
pub(super) fn picture_element(source: &str, alt: &str, out: &mut String) {
    out.push_str("<img src=\"");
    escape(source, out);
    out.push_str("\" alt=\"");
    escape(&balanced(&visible(alt)), out);
    out.push_str("\">");
}
