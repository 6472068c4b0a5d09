//! Decides which addresses may be followed and which images may be shown, and reads `data:` addresses.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

use crate::data::replace_data;
use crate::words;

/// A base64 decoder that ignores the unused bits before padding, which some encoders do not set to zero.
const LENIENT_DECODER: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// The maximum size, in bytes, of a text file whose content is shown.
const MAX_TEXT_BYTES: usize = 4 << 10;

/// The scheme of an address, if it has one.
fn scheme(url: &str) -> Option<&str> {
    let end = url.find([':', '/', '?', '#'])?;
    url[end..].starts_with(':').then(|| &url[..end])
}

/// The address if it may be a link in a document: `http`, `https` or `mailto`, without long base64.
pub(crate) fn followable(url: &str) -> Option<&str> {
    let url = url.trim();
    let is_allowed = |name: &&str| {
        scheme(url).is_some_and(|s| s.eq_ignore_ascii_case(name)) && !url.contains(char::is_control)
    };
    let has_data = || matches!(replace_data(url), Cow::Owned(_));
    (["http", "https", "mailto"].iter().any(is_allowed) && !has_data()).then_some(url)
}

/// Whether a link in a Markdown text may be kept: one that may be followed, or a relative one.
pub(crate) fn is_harmless(url: &str) -> bool {
    followable(url).is_some() || (!url.contains(':') && !url.contains(char::is_control))
}

/// The address if it is a `data:` address of a raster picture, in which browsers run no scripts.
pub(crate) fn picture(url: &str) -> Option<&str> {
    const KINDS: [&str; 5] = ["png", "jpeg", "jpg", "gif", "webp"];
    let url = url.trim();
    let (head, data) = url.split_once(',')?;
    let is_allowed = |kind: &&str| head.eq_ignore_ascii_case(&format!("data:image/{kind};base64"));
    (KINDS.iter().any(is_allowed) && matches!(compact_base64(data)?, Cow::Borrowed(_)))
        .then_some(url)
}

/// Whether an address is a `data:` address, which contains the data itself.
pub(crate) fn is_data(url: &str) -> bool {
    let scheme = url.trim_start().get(..5);
    scheme.is_some_and(|s| s.eq_ignore_ascii_case("data:")) && url.contains(',')
}

/// The media type of a `data:` address, which may be empty, and whether the data is base64.
pub(crate) fn media_type(url: &str) -> Option<(&str, bool)> {
    let (head, _) = url.split_once(',').filter(|_| is_data(url))?;
    let mut words = head.trim_start()[5..].split(';');
    let kind = words.next().unwrap_or_default();
    Some((kind, words.any(|w| w.eq_ignore_ascii_case("base64"))))
}

/// Removes the line endings from base64 of the standard alphabet with padding (RFC 4648 §4); `None` for any other text.
pub(crate) fn compact_base64(data: &str) -> Option<Cow<'_, str>> {
    let data = match data.contains(['\r', '\n']) {
        true => Cow::Owned(data.split(['\r', '\n']).collect()),
        false => Cow::Borrowed(data),
    };
    let body = data.trim_end_matches('=');
    let is_base64 = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    let has_valid_length =
        !body.is_empty() && data.len().is_multiple_of(4) && data.len() - body.len() <= 2;
    (has_valid_length && body.bytes().all(is_base64)).then_some(data)
}

/// The number of bytes that `data`, the content of a `data:` address, has when decoded.
fn decoded_length(data: &str, base64: bool) -> usize {
    match compact_base64(data).filter(|_| base64) {
        Some(data) => data.trim_end_matches('=').len() * 3 / 4,
        None => data.len(),
    }
}

/// The text of a text file in a base64 `data:` address, if it is short enough to be shown in the document. `declared`
/// is the media type that the part gives; the type in the address counts only without it.
pub(crate) fn short_text(url: &str, declared: Option<&str>) -> Option<String> {
    let (address_type, base64) = media_type(url)?;
    let kind = declared.unwrap_or(address_type).trim().get(..5)?;
    if !base64 || !kind.eq_ignore_ascii_case("text/") {
        return None;
    }
    let data = compact_base64(url.split_once(',')?.1)?;
    if decoded_length(&data, true) > MAX_TEXT_BYTES {
        return None;
    }
    String::from_utf8(LENIENT_DECODER.decode(&*data).ok()?).ok()
}

/// The label of an address that cannot be a link: the address, or type and size if it is a `data:` address.
pub(crate) fn label(url: &str) -> String {
    let data = url.split_once(',').map(|(_, data)| data);
    match (media_type(url), data) {
        (Some((kind, base64)), Some(data)) => {
            let kind = if kind.is_empty() { "data" } else { kind };
            format!("{kind}, {}", words::size(decoded_length(data, base64)))
        }
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_three_schemes_are_followed() {
        for good in ["http://a", "HTTPS://a/?q=1:2", "mailto:a@b", " https://a "] {
            assert!(followable(good).is_some(), "{good}");
        }
        for bad in [
            "javascript:alert(1)",
            "JaVaScRiPt:alert(1)",
            "java\tscript:alert(1)",
            "\u{1}javascript:x",
            "data:text/html,x",
            "vbscript:x",
            "file:///etc",
            "//host/x",
            "/x",
            "#x",
            "",
            "http\n://x",
        ] {
            assert!(followable(bad).is_none(), "{bad:?}");
        }
        assert!(is_harmless("a/b.md#c") && is_harmless("") && !is_harmless(" javascript:x"));
        assert!(!is_harmless("java\nscript:x") && !is_harmless("x\u{1}"));
    }

    #[test]
    fn only_raster_pictures_are_shown() {
        assert!(picture("data:image/png;base64,AAAA").is_some());
        assert!(picture("DATA:image/WebP;base64,AAA=").is_some());
        for bad in [
            "data:image/svg+xml;base64,AAAA",
            "data:image/png,AAAA",
            "data:image/png;base64,",
            "data:image/png;base64,A\"B",
            "data:image/png;base64,AAAA==",
            "data:image/png;base64,AAAAA",
            "data:text/html;base64,AAAA",
            "https://a/b.png",
        ] {
            assert!(picture(bad).is_none(), "{bad}");
        }
        assert_eq!(label("data:text/html,<b>"), "text/html, 3 bytes");
        assert_eq!(label("data:image/png;base64,AAA="), "image/png, 2 bytes");
        assert_eq!(label("x,y"), "x,y");
    }

    #[test]
    fn short_text_files_are_read() {
        let read = |data: &str| {
            short_text(
                &format!("data:text/plain;charset=utf-8;base64,{data}"),
                None,
            )
        };
        assert_eq!(read("YcOpIQ==").as_deref(), Some("aé!"));
        assert_eq!(read("//79"), None);
        assert_eq!(read(&"QUJD".repeat(1_365)).map(|t| t.len()), Some(4_095));
        assert_eq!(read(&"QUJD".repeat(1_366)), None);
        assert_eq!(
            short_text("data:;base64,QUJD", Some("text/csv")).as_deref(),
            Some("ABC")
        );
        assert_eq!(short_text("data:application/pdf;base64,QUJD", None), None);
    }
}
