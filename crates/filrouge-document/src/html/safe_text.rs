//! Renders untrusted strings as content of HTML elements and attributes.

use maud::{Markup, PreEscaped, Render};

use super::rich::render_markdown;
use crate::text::{close_direction_changes, sanitize};

/// An untrusted string within a line. When it is rendered, sizes replace long base64 and `data:` addresses, control
/// characters become U+FFFD, and open changes of text direction are closed.
pub(super) struct SafeText<'a>(pub(super) &'a str);

impl Render for SafeText<'_> {
    fn render_to(&self, out: &mut String) {
        close_direction_changes(&sanitize(self.0)).render_to(out);
    }
}

/// Untrusted Markdown.
pub(super) struct SafeMarkdown<'a>(pub(super) &'a str);

impl Render for SafeMarkdown<'_> {
    fn render_to(&self, out: &mut String) {
        render_markdown(self.0, out);
    }
}

/// A code block; the language is shown above it, unless it is empty.
pub(super) fn listing(language: &str, text: &str) -> Markup {
    let mut out = String::with_capacity(text.len() + text.len() / 16 + 64);
    out.push_str("<pre dir=\"ltr\"><code");
    if !language.is_empty() {
        out.push_str(" data-language=\"");
        sanitize(language).render_to(&mut out);
        out.push('"');
    }
    out.push('>');
    sanitize(text).render_to(&mut out);
    out.push_str("</code></pre>");
    PreEscaped(out)
}

/// Appends an `img` element. `source` must be an address that `url::picture` has accepted.
pub(super) fn picture_element(source: &str, alt: &str, out: &mut String) {
    out.push_str("<img src=\"");
    source.render_to(out);
    out.push_str("\" alt=\"");
    close_direction_changes(&sanitize(alt)).render_to(out);
    out.push_str("\">");
}
