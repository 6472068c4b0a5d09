//! Renders untrusted strings as content of HTML elements and attributes.

use maud::{Markup, PreEscaped, Render};

use crate::text::{close_direction_changes, sanitize};

/// An untrusted string within a line. When it is rendered, sizes replace long base64 and `data:` addresses, control
/// characters become U+FFFD, and open changes of text direction are closed.
pub(super) struct SafeText<'a>(pub(super) &'a str);

impl Render for SafeText<'_> {
    fn render_to(&self, out: &mut String) {
        close_direction_changes(&sanitize(self.0)).render_to(out);
    }
}

/// A code block; the language is shown above it, unless it is empty.
pub(crate) fn listing(language: &str, text: &str) -> Markup {
    let mut out = String::with_capacity(text.len() + text.len() / 16 + 64);
    open_listing(&sanitize(language), &mut out);
    sanitize(text).render_to(&mut out);
    out.push_str("</code></pre>");
    PreEscaped(out)
}

/// Appends the beginning of a code block in this language, which may be empty.
pub(super) fn open_listing(language: &str, out: &mut String) {
    out.push_str("<pre dir=\"ltr\"><code");
    if !language.is_empty() {
        out.push_str(" data-language=\"");
        language.render_to(out);
        out.push('"');
    }
    out.push('>');
}
