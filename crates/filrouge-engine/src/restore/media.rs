//! Reads images and files from parts.

use filrouge_types::Members;

use super::content::plain;
use super::plan::{Content, Media, MediaSource};

/// Decodes an `image_url`, `image` or `file` part. If no provider can read the source, the result only names it.
pub(super) fn read(kind: &str, members: &Members<'_>) -> Content {
    // OpenAI and Anthropic nest the source in an object of one of these names.
    let nested = ["image_url", "file", "source"];
    let inner = nested
        .iter()
        .find_map(|name| members.get(name).filter(|v| v.starts_with('{')))
        .and_then(Members::parse);
    let find = |names: &[&str]| {
        let inner = inner.as_ref().and_then(|i| plain(i, names));
        inner
            .or_else(|| plain(members, names))
            .filter(|t| !t.is_empty())
    };
    let mut mime = find(&["mime", "mime_type", "mimeType", "media_type"]);
    let source = if let Some(data) = find(&["data"]) {
        base64(&data)
    } else if let Some(url) = find(&["url", "image_url", "file_data"]) {
        source_at(&url, &mut mime)
    } else if let Some(id) = find(&["file_id"]) {
        MediaSource::Id(id.into())
    } else {
        MediaSource::Elsewhere("".into())
    };
    let mime = mime.map(|m| m.trim().to_ascii_lowercase());
    let is_image = match &mime {
        Some(mime) => mime.starts_with("image/"),
        None => kind != "file",
    };
    let media = Media {
        source,
        mime: mime.map(Into::into),
        name: find(&["filename", "name", "title"]).map(Into::into),
    };
    if is_image {
        Content::Image(media)
    } else {
        Content::File(media)
    }
}

/// Whether bytes of a media type, given without parameters, are text.
pub fn is_text(mime: &str) -> bool {
    const TEXTUAL: [&str; 7] = [
        "application/json",
        "application/xml",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/javascript",
        "application/sql",
    ];
    mime.starts_with("text/") || TEXTUAL.contains(&mime)
}

/// The source that an address names; a `data:` address also sets the media type.
fn source_at(url: &str, mime: &mut Option<String>) -> MediaSource {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") {
        return MediaSource::Url(url.into());
    }
    if !scheme.eq_ignore_ascii_case("data") {
        return MediaSource::Elsewhere(url.into());
    }
    // The text of an unreadable `data:` address is useless to a model as well, so only its scheme is kept.
    let unreadable = MediaSource::Elsewhere("data:".into());
    let Some((head, data)) = url[scheme.len() + 1..].split_once(',') else {
        return unreadable;
    };
    let mut words = head.split(';');
    if let Some(declared) = words.next().filter(|m| m.contains('/')) {
        *mime = Some(declared.to_owned());
    }
    if words.any(|w| w.eq_ignore_ascii_case("base64")) {
        base64(data)
    } else {
        unreadable
    }
}

/// The source of data in standard base64 with padding, without white space. Invalid data becomes a source that no
/// provider can read.
fn base64(data: &str) -> MediaSource {
    let has_white_space = data.bytes().any(|b| b.is_ascii_whitespace());
    let data: Box<str> = if has_white_space {
        data.split_ascii_whitespace().collect::<String>().into()
    } else {
        data.into()
    };
    let bytes = data.as_bytes();
    let padding = bytes.iter().rev().take_while(|b| **b == b'=').count();
    let is_symbol = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    let is_valid = !bytes.is_empty()
        && bytes.len().is_multiple_of(4)
        && padding <= 2
        && bytes[..bytes.len() - padding].iter().all(is_symbol);
    if is_valid {
        MediaSource::Base64(data)
    } else {
        MediaSource::Elsewhere("data:".into())
    }
}
