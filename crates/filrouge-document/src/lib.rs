//! One conversation as a document to read: Markdown or one self-contained HTML file (DESIGN §12 `export`).
//!
//! The content of a conversation is untrusted. It cannot change the structure of the document: a text cannot close the
//! block that contains it, its HTML and its links that run code are inert, and opening the HTML file fetches nothing.
//! Content that cannot be rendered is shown as its JSON. The `metadata` of sessions, turns and items is only in the
//! JSON export.

mod data;
mod html;
mod json;
mod language;
mod markdown;
mod media;
mod part;
mod part_view;
mod redaction;
mod shown;
mod text;
mod turn_entries;
mod url;
mod words;

use std::fmt;

use filrouge_types::{Channel, Item, Recorded, Role, Turn, TurnStatus};

pub use html::{STYLE, STYLE_HASH};
pub use language::Language;
pub use part_view::PartView;
pub use redaction::Redactions;
pub use shown::Shown;

/// Writes the conversation as CommonMark that has only headings, lists, block quotes and code.
///
/// Texts are in block quotes. HTML, link definitions, links that run code and images are escaped with backslashes, so
/// that an image is shown as a link; a text that nests too deep or exceeds 1 MiB is in a code block. Control characters
/// become U+FFFD. A name or value inside a line of the document's own text is cut after 4,096 characters. Pictures and
/// files in base64 or a `data:` address are replaced by their type and size, any other base64 or `data:` address of
/// more than 200 characters by its size. The output is written piece by piece; memory is bounded by one turn.
///
/// # Errors
/// Only those of `out`.
pub fn markdown(recorded: &Recorded, out: &mut dyn fmt::Write) -> fmt::Result {
    markdown::write(recorded, out)
}

/// Writes the conversation as one HTML file without scripts that makes no request.
///
/// Texts are rendered as Markdown, their HTML shown as text; a text that nests too deep or exceeds 1 MiB is
/// preformatted. Each item is the target of `#seq-N`, each turn of `#turn-ID`. Control characters become U+FFFD. PNG,
/// JPEG, GIF and WebP pictures in base64 are shown; other base64 and `data:` addresses of more than 200 characters are
/// replaced by their size. In print, folded blocks are open, except notes that have no text to read. The output is
/// written piece by piece; memory is bounded by one turn.
///
/// # Errors
/// Only those of `out`.
pub fn html(recorded: &Recorded, out: &mut dyn fmt::Write) -> fmt::Result {
    html::write(recorded, out)
}

/// Writes one turn, or only these of its items, as a section of the HTML document, for a page with [`STYLE`].
///
/// # Errors
/// Only those of `out`.
pub fn html_turn(
    turn: &Turn,
    items: &[Item],
    (redactions, view): (&Redactions, &PartView),
    out: &mut dyn fmt::Write,
) -> fmt::Result {
    html::write_turn(turn, items, html::Frame::of_part(redactions, view), out)
}

/// Writes items as the HTML document does, without a heading. `turn` is theirs; `None` for items outside the turns.
///
/// # Errors
/// Only those of `out`.
pub fn html_items(
    turn: Option<&Turn>,
    items: &[Item],
    (redactions, view): (&Redactions, &PartView),
    out: &mut dyn fmt::Write,
) -> fmt::Result {
    html::write_items(turn, items, html::Frame::of_part(redactions, view), out)
}

/// Writes those of a turn's items whose calls the last of these items answers, each with its results, as the HTML
/// document does. It writes nothing if the last item answers none of their calls.
///
/// # Errors
/// Only those of `out`.
pub fn html_answered(
    turn: &Turn,
    items: &[Item],
    (redactions, view): (&Redactions, &PartView),
    out: &mut dyn fmt::Write,
) -> fmt::Result {
    html::write_answered(turn, items, html::Frame::of_part(redactions, view), out)
}

/// The name of a role, as items of a page have it.
pub fn role_name(role: Role, language: Language) -> &'static str {
    language::translated(words::role(role), language)
}

/// The name of a channel, as items of a page have it; of a channel of an application, the channel itself.
pub fn channel_name(channel: &Channel, language: Language) -> &str {
    language::translated(words::channel(channel), language)
}

/// The name of a turn's status, as headings of a page have it.
pub fn turn_status_name(status: TurnStatus, language: Language) -> &'static str {
    language::translated(status.as_str(), language)
}

/// Returns a text as HTML, as the HTML document renders it: Markdown whose HTML is shown as text.
pub fn html_text(text: &str) -> String {
    html::render_markdown(text).into_string()
}

/// Returns JSON as an HTML block with line breaks.
pub fn html_json(json: &str) -> String {
    html::listing("json", &json::pretty(json)).into_string()
}
