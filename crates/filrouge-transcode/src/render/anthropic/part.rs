//! Images and documents as content blocks.

use filrouge_engine::restore::{Content, Media};

use crate::json;
use crate::media::{self, IMAGES, PDF, Source};

/// The longest title of a document, in characters.
const TITLE_CHARS_MAX: usize = 500;

enum Part<'a> {
    Image(Source<'a>),
    Document(&'a Media, Source<'a>),
    /// A file whose bytes are text.
    Text(&'a Media, String),
}

fn sendable_part(content: &Content) -> Option<Part<'_>> {
    let (medium, source) = media::sendable(content)?;
    let is_image = matches!(content, Content::Image(_));
    let is_accepted = match source {
        Source::Base64 { mime, .. } if is_image => IMAGES.contains(&mime),
        Source::Base64 { mime: PDF, .. } => true,
        Source::Base64 { .. } => {
            return media::decode_text(medium).map(|text| Part::Text(medium, text));
        }
        // The API fetches only HTTPS addresses: "Only HTTPS URLs are supported".
        Source::Link(link) => link.scheme == "https" && (is_image || link.is_pdf()),
        Source::OpenaiFile(_) => false,
    };
    is_accepted.then_some(match is_image {
        true => Part::Image(source),
        false => Part::Document(medium, source),
    })
}

/// Whether `content` is an image or a file that can be a block.
pub(super) fn is_sendable(content: &Content) -> bool {
    sendable_part(content).is_some()
}

/// Appends the block of an image or a file, if it can be one. Returns whether a text file of another type was written
/// as `text/plain`.
pub(super) fn push_block(content: &Content, out: &mut String) -> bool {
    match sendable_part(content) {
        Some(Part::Image(source)) => {
            out.push_str("{\"type\":\"image\",\"source\":");
            push_source(source, out);
        }
        Some(Part::Document(file, source)) => {
            begin_document(file, out);
            push_source(source, out);
        }
        Some(Part::Text(file, text)) => {
            begin_document(file, out);
            out.push_str("{\"type\":\"text\",\"media_type\":\"text/plain\",\"data\":");
            json::push_string(out, &text);
            out.push_str("}}");
            return media::media_type(file) != Some("text/plain");
        }
        None => return false,
    }
    out.push('}');
    false
}

/// Begins the block of a document, up to its source.
fn begin_document(file: &Media, out: &mut String) {
    out.push_str("{\"type\":\"document\"");
    let title = file.name.as_deref().unwrap_or_default();
    if !title.trim().is_empty() && title.chars().count() <= TITLE_CHARS_MAX {
        json::push_text_member(out, "title", title);
    }
    out.push_str(",\"source\":");
}

fn push_source(source: Source<'_>, out: &mut String) {
    match source {
        Source::Base64 { mime, data } => {
            out.push_str("{\"type\":\"base64\"");
            json::push_text_member(out, "media_type", mime);
            json::push_text_member(out, "data", data);
        }
        Source::Link(link) => {
            out.push_str("{\"type\":\"url\",\"url\":");
            link.push(out);
        }
        Source::OpenaiFile(id) => {
            out.push_str("{\"type\":\"file\",\"file_id\":");
            json::push_string(out, id);
        }
    }
    out.push('}');
}
