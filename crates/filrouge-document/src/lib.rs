//! One conversation as a document to read: Markdown or one self-contained HTML file (DESIGN §12 `export`).
//!
//! What is in a conversation was written by strangers. Whatever they wrote, the
//! document keeps its own structure: no text ends its block, no markup of a text
//! comes alive, nothing is fetched when the document is opened. What cannot be
//! shown as intended is shown as its JSON. The metadata of sessions, turns and items
//! is left to the JSON export.

mod data;
mod html;
mod json;
mod markdown;
mod media;
mod part;
mod redaction;
mod script;
mod text;
mod url;
mod words;

use std::fmt;

use filrouge_types::Recorded;

/// Writes the conversation as CommonMark with nothing but headings, lists, block quotes and code.
///
/// Texts stand in block quotes, with backslashes where they would be HTML, a link definition or a link
/// that runs code; a text that nests too deep or exceeds 1 MiB stands in a code block. Control characters
/// become U+FFFD. A name or value within a line of the document's own words is cut after 4,096 characters; of
/// pictures and files in base64 or a `data:` address only type and size are told, and of any base64 or `data:`
/// address of more than 200 characters only the size. The output is written piece by piece; memory is bounded
/// by one turn.
///
/// # Errors
/// Only those of `out`.
pub fn markdown(recorded: &Recorded, out: &mut dyn fmt::Write) -> fmt::Result {
    markdown::write(recorded, out)
}

/// Writes the conversation as one HTML file without scripts that makes no request.
///
/// Texts are rendered as Markdown, their HTML shown as text; a text that nests too deep or exceeds 1 MiB is
/// preformatted. Each item is the target of `#seq-N`, each turn of `#turn-ID`. Control characters become
/// U+FFFD. PNG, JPEG, GIF and WebP pictures in base64 are shown, of other base64 and `data:` addresses of more
/// than 200 characters only the size is told. Printed, folded blocks are open but for mere bookkeeping. The output is written piece by piece; memory is bounded by one turn.
///
/// # Errors
/// Only those of `out`.
pub fn html(recorded: &Recorded, out: &mut dyn fmt::Write) -> fmt::Result {
    html::write(recorded, out)
}
