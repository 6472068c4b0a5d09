//! Which addresses may be followed and which images may be shown.

/// The scheme an address begins with, if it has one.
fn scheme(url: &str) -> Option<&str> {
    let end = url.find([':', '/', '?', '#'])?;
    url[end..].starts_with(':').then(|| &url[..end])
}

/// An address that may be a link of the HTML document: `http`, `https` or `mailto`.
pub(crate) fn followable(url: &str) -> Option<&str> {
    let url = url.trim();
    let known = |name: &&str| {
        scheme(url).is_some_and(|s| s.eq_ignore_ascii_case(name)) && !url.contains(char::is_control)
    };
    ["http", "https", "mailto"].iter().any(known).then_some(url)
}

/// Whether a link of a Markdown text may stay: one that may be followed, or a relative one.
pub(crate) fn harmless(url: &str) -> bool {
    followable(url).is_some() || (!url.contains(':') && !url.contains(char::is_control))
}

/// A `data:` address of a picture that browsers only draw.
pub(crate) fn picture(url: &str) -> Option<&str> {
    const KINDS: [&str; 5] = ["png", "jpeg", "jpg", "gif", "webp"];
    let url = url.trim();
    let (head, data) = url.split_once(',')?;
    let known = |kind: &&str| head.eq_ignore_ascii_case(&format!("data:image/{kind};base64"));
    let base64 = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
    (KINDS.iter().any(known) && !data.is_empty() && data.bytes().all(base64)).then_some(url)
}

/// What an address is called when it cannot be a link: itself, unless it holds the data.
pub(crate) fn name(url: &str) -> String {
    let is_data = url
        .get(..5)
        .is_some_and(|s| s.eq_ignore_ascii_case("data:"));
    match url.split_once(',') {
        Some((head, data)) if is_data => format!("{head}, {} bytes", data.len()),
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
        assert!(harmless("a/b.md#c") && harmless("") && !harmless(" javascript:x"));
        assert!(!harmless("java\nscript:x") && !harmless("x\u{1}"));
    }

    #[test]
    fn only_raster_pictures_are_shown() {
        assert!(picture("data:image/png;base64,AAAA").is_some());
        assert!(picture("DATA:image/WebP;base64,AAAA==").is_some());
        for bad in [
            "data:image/svg+xml;base64,AAAA",
            "data:image/png,AAAA",
            "data:image/png;base64,",
            "data:image/png;base64,A\"B",
            "data:text/html;base64,AAAA",
            "https://a/b.png",
        ] {
            assert!(picture(bad).is_none(), "{bad}");
        }
        assert_eq!(name("data:text/html,<b>"), "data:text/html, 3 bytes");
        assert_eq!(name("x,y"), "x,y");
    }
}
