//! Images and files: which of them a provider accepts, and the descriptions that replace the others.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use filrouge_engine::restore::{Content, Media, MediaSource, is_text};

/// The image types that OpenAI and Anthropic accept (both name the same four).
pub(crate) const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// The only document type that every provider accepts.
pub(crate) const PDF: &str = "application/pdf";
/// The maximum number of characters of a medium's name in a text.
const LABEL_CHARS_MAX: usize = 200;

/// A medium in a form that can be sent to a provider; which forms and types are accepted depends on the provider.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    /// Bytes of a known type.
    Base64 { mime: &'a str, data: &'a str },
    /// An absolute address.
    Link(Link<'a>),
    /// A file that was uploaded to OpenAI.
    OpenaiFile(&'a str),
}

/// An absolute address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link<'a> {
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
    /// The address after `scheme:`.
    pub(crate) after_scheme: &'a str,
    pub(crate) mime: Option<&'a str>,
}

impl Link<'_> {
    /// Appends the address as a JSON string.
    pub(crate) fn push(&self, out: &mut String) {
        out.push('"');
        out.push_str(self.scheme);
        out.push(':');
        crate::json::push_escaped(out, self.after_scheme);
        out.push('"');
    }

    /// Whether the address is that of a PDF, by its media type or, without one, by the end of its path.
    pub(crate) fn is_pdf(&self) -> bool {
        let path = self
            .after_scheme
            .split(['?', '#'])
            .next()
            .unwrap_or_default();
        match self.mime {
            Some(mime) => mime == PDF,
            None => path.to_ascii_lowercase().ends_with(".pdf"),
        }
    }
}

/// The image or the file that `content` is, and its sendable form; `None` if no provider could read it.
pub(crate) fn sendable(content: &Content) -> Option<(&Media, Source<'_>)> {
    let (Content::Image(media) | Content::File(media)) = content else {
        return None;
    };
    Some((media, sendable_source(media)?))
}

/// The sendable form of `media`; `None` if no provider could read it.
fn sendable_source(media: &Media) -> Option<Source<'_>> {
    match &media.source {
        MediaSource::Base64(data) if is_base64(data) => Some(Source::Base64 {
            mime: media_type(media)?,
            data,
        }),
        MediaSource::Url(url) => parse_link(url, media_type(media)).map(Source::Link),
        // An id does not name its provider. Only OpenAI accepts ids of files outside of a beta; its ids are recognized
        // by their shape (Anthropic's begin with `file_`, Google's with `files/`).
        MediaSource::Id(id) => {
            let is_openai_id = id.starts_with("file-") || id.starts_with("assistant-");
            let has_only_valid_chars = id
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
            (is_openai_id && has_only_valid_chars).then_some(Source::OpenaiFile(id))
        }
        MediaSource::Base64(_) | MediaSource::Elsewhere(_) => None,
    }
}

/// The media type without its parameters; `None` if it is missing or malformed.
pub(crate) fn media_type(media: &Media) -> Option<&str> {
    let mime = media.mime.as_deref()?.split(';').next()?.trim();
    let is_token = |text: &str| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&b);
        !text.is_empty() && text.bytes().all(allowed)
    };
    let (top, sub) = mime.split_once('/')?;
    match mime {
        "image/jpg" => Some("image/jpeg"),
        _ => (is_token(top) && is_token(sub)).then_some(mime),
    }
}

/// Whether `data` is padded base64 in the standard alphabet whose unused trailing bits are zero, as strict readers
/// require.
pub(crate) fn is_base64(data: &str) -> bool {
    !data.is_empty() && STANDARD.decode(data).is_ok()
}

/// Parses an absolute `http` or `https` address; `None` for any other text.
fn parse_link<'a>(url: &'a str, mime: Option<&'a str>) -> Option<Link<'a>> {
    let (scheme, after_scheme) = url.split_once(':')?;
    let scheme = ["https", "http"]
        .into_iter()
        .find(|s| s.eq_ignore_ascii_case(scheme))?;
    let host = after_scheme.strip_prefix("//")?;
    let has_only_valid_chars = !url.contains(|c: char| c.is_whitespace() || c.is_control());
    let has_host = !host.is_empty() && !host.starts_with('/');
    (has_only_valid_chars && has_host).then_some(Link {
        scheme,
        after_scheme,
        mime,
    })
}

/// The text of a file, if its bytes and its media type are those of a text, and it is not blank.
pub(crate) fn decode_text(media: &Media) -> Option<String> {
    let Some(Source::Base64 { mime, data }) = sendable_source(media) else {
        return None;
    };
    if !is_text(mime) {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(data).ok()?).ok()?;
    (!text.trim().is_empty()).then_some(text)
}

/// The text of a file whose bytes are text, after a line that names the file.
pub(crate) fn text_with_heading(media: &Media) -> Option<String> {
    let text = decode_text(media)?;
    Some(format!("{}\n{text}", placeholder("file", media)))
}

/// A file name for a provider that requires one.
pub(crate) fn file_name(media: &Media) -> &str {
    match media.name.as_deref() {
        Some(name) if !name.trim().is_empty() => name,
        _ if media_type(media) == Some(PDF) => "file.pdf",
        _ => "file",
    }
}

/// The text that describes a medium, such as `[image: chart.png (image/png)]`. It never contains the medium's bytes.
pub(crate) fn placeholder(kind: &str, media: &Media) -> String {
    let address = match &media.source {
        MediaSource::Base64(_) => "",
        MediaSource::Url(address) | MediaSource::Id(address) | MediaSource::Elsewhere(address) => {
            address
        }
    };
    let scheme = address.get(..5).unwrap_or_default();
    let label = match media.name.as_deref() {
        Some(name) if !name.trim().is_empty() => name,
        _ if scheme.eq_ignore_ascii_case("data:") => "",
        _ => address,
    };
    let mut text = format!("[{kind}");
    if !label.trim().is_empty() {
        text.push_str(": ");
        text.extend(label.chars().take(LABEL_CHARS_MAX));
    }
    if let Some(mime) = media_type(media) {
        text.push_str(" (");
        text.push_str(mime);
        text.push(')');
    }
    text.push(']');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media(source: MediaSource, mime: Option<&str>, name: Option<&str>) -> Media {
        Media {
            source,
            mime: mime.map(Into::into),
            name: name.map(Into::into),
        }
    }

    #[test]
    fn placeholders_name_a_medium_without_its_content() {
        let url = MediaSource::Url("https://h/a.png".into());
        let cases = [
            (
                media(url.clone(), Some("image/png"), Some("a.png")),
                "[image: a.png (image/png)]",
            ),
            (media(url, None, None), "[image: https://h/a.png]"),
            (
                media(MediaSource::Base64("iVBO".into()), Some("image/png"), None),
                "[image (image/png)]",
            ),
            (
                media(MediaSource::Elsewhere("data:iVBO".into()), None, Some(" ")),
                "[image]",
            ),
            (
                media(MediaSource::Elsewhere("/tmp/a b".into()), Some("x"), None),
                "[image: /tmp/a b]",
            ),
        ];
        for (media, expected) in cases {
            assert_eq!(placeholder("image", &media), expected);
        }
    }

    #[test]
    fn only_media_that_every_reader_accepts_are_sent() {
        let data = |data: &str, mime| {
            sendable_source(&media(MediaSource::Base64(data.into()), mime, None)).is_some()
        };
        assert!(data("aGk=", Some("image/png")) && data("aA==", Some("text/plain; charset=utf-8")));
        assert!(!data("aGl=", Some("image/png")) && !data("aB==", Some("image/png")));
        assert!(!data("aGk=", None) && !data("", Some("image/png")) && !data("aGk=", Some("png")));
        let url =
            |url: &str| sendable_source(&media(MediaSource::Url(url.into()), None, None)).is_some();
        assert!(url("HTTPS://h/x") && url("http://h"));
        assert!(!url("https:///x") && !url("https://") && !url("https://h/a b") && !url("https:h"));
        let id =
            |id: &str| sendable_source(&media(MediaSource::Id(id.into()), None, None)).is_some();
        assert!(id("file-1") && !id("file_011C") && !id("files/1") && !id("file-\"1"));
    }

    #[test]
    fn a_text_file_is_written_as_its_text() {
        let text_of = |data: &str, mime| {
            text_with_heading(&media(
                MediaSource::Base64(data.into()),
                Some(mime),
                Some("a.md"),
            ))
        };
        assert_eq!(
            text_of("aGk=", "text/markdown").as_deref(),
            Some("[file: a.md (text/markdown)]\nhi")
        );
        assert_eq!(text_of("aGk=", "application/zip"), None);
        assert_eq!(text_of("/w==", "text/plain"), None);
        assert_eq!(text_of("ICA=", "text/plain"), None);
    }
}
