//! Renders untrusted strings as content of HTML elements and attributes.

use maud::{Markup, PreEscaped, Render};

use super::rich::rich;
use crate::text::{balanced, visible};

/// An untrusted string within a line: long base64 and `data:` addresses are replaced by their size, control characters
/// become U+FFFD, and changes of text direction are closed.
pub(super) struct Shown<'a>(pub(super) &'a str);

impl Render for Shown<'_> {
    fn render_to(&self, out: &mut String) {
        balanced(&visible(self.0)).render_to(out);
    }
}

/// Untrusted Markdown.
pub(super) struct Rich<'a>(pub(super) &'a str);

impl Render for Rich<'_> {
    fn render_to(&self, out: &mut String) {
        rich(self.0, out);
    }
}

/// A code block; the language is shown above it, unless it is empty.
pub(super) fn listing(language: &str, text: &str) -> Markup {
    let mut out = String::with_capacity(text.len() + text.len() / 16 + 64);
    out.push_str("<pre dir=\"ltr\"><code");
    if !language.is_empty() {
        out.push_str(" data-language=\"");
        visible(language).render_to(&mut out);
        out.push('"');
    }
    out.push('>');
    visible(text).render_to(&mut out);
    out.push_str("</code></pre>");
    PreEscaped(out)
}

/// Appends an `img` element. `source` must be an address that `url::picture` has accepted.
pub(super) fn picture_element(source: &str, alt: &str, out: &mut String) {
    out.push_str("<img src=\"");
    source.render_to(out);
    out.push_str("\" alt=\"");
    balanced(&visible(alt)).render_to(out);
    out.push_str("\">");
}
