//! Images and documents as content blocks.

use filrouge_engine::restore::{Content, Media};

use crate::json;
use crate::media::{self, IMAGES, PDF, Source};

/// The longest title of a document, in characters.
const LONGEST_TITLE: usize = 500;

enum Part<'a> {
    Image(Source<'a>),
    Document(&'a Media, Source<'a>),
    /// A file whose bytes are text.
    Text(&'a Media, String),
}

fn part(content: &Content) -> Option<Part<'_>> {
    // The API fetches only HTTPS addresses: "Only HTTPS URLs are supported".
    match content {
        Content::Image(image) => match media::source(image)? {
            Source::Base64 { mime, .. } if !IMAGES.contains(&mime) => None,
            Source::Link(link) if link.scheme != "https" => None,
            Source::OpenaiFile(_) => None,
            source => Some(Part::Image(source)),
        },
        Content::File(file) => match media::source(file)? {
            source @ Source::Base64 { mime: PDF, .. } => Some(Part::Document(file, source)),
            Source::Base64 { .. } => media::decoded(file).map(|text| Part::Text(file, text)),
            Source::Link(link) if link.scheme == "https" && link.is_pdf() => {
                Some(Part::Document(file, Source::Link(link)))
            }
            Source::Link(_) | Source::OpenaiFile(_) => None,
        },
        _ => None,
    }
}

/// Whether `content` is an image or a file that can be a block.
pub(super) fn is_sendable(content: &Content) -> bool {
    part(content).is_some()
}

/// Appends the block of an image or a file, if it can be one. Returns whether a text file of another type was written
/// as `text/plain`.
pub(super) fn push(content: &Content, out: &mut String) -> bool {
    match part(content) {
        Some(Part::Image(source)) => {
            out.push_str("{\"type\":\"image\",\"source\":");
            push_source(source, out);
        }
        Some(Part::Document(file, source)) => {
            document(file, out);
            push_source(source, out);
        }
        Some(Part::Text(file, text)) => {
            document(file, out);
            out.push_str("{\"type\":\"text\",\"media_type\":\"text/plain\",\"data\":");
            json::string(out, &text);
            out.push_str("}}");
            return !media::is_plain(file);
        }
        None => return false,
    }
    out.push('}');
    false
}

/// Begins the block of a document, up to its source.
fn document(file: &Media, out: &mut String) {
    out.push_str("{\"type\":\"document\",");
    let title = file.name.as_deref().unwrap_or_default();
    if !title.trim().is_empty() && title.chars().count() <= LONGEST_TITLE {
        out.push_str("\"title\":");
        json::string(out, title);
        out.push(',');
    }
    out.push_str("\"source\":");
}

fn push_source(source: Source<'_>, out: &mut String) {
    match source {
        Source::Base64 { mime, data } => {
            out.push_str("{\"type\":\"base64\",\"media_type\":");
            json::string(out, mime);
            out.push_str(",\"data\":");
            json::string(out, data);
        }
        Source::Link(link) => {
            out.push_str("{\"type\":\"url\",\"url\":");
            link.push(out);
        }
        Source::OpenaiFile(id) => {
            out.push_str("{\"type\":\"file\",\"file_id\":");
            json::string(out, id);
        }
    }
    out.push('}');
}
