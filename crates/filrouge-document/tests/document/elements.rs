//! A strict HTML parser: it accepts only the elements and attributes that a document may contain.

/// Panics at any other element or attribute, at an unsafe link, and at any syntax that documents do not use.
pub(crate) fn check_elements(html: &str) {
    const ELEMENTS: &[&str] = &[
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "a",
        "header",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "bdi",
        "dl",
        "div",
        "dt",
        "dd",
        "nav",
        "details",
        "summary",
        "ul",
        "ol",
        "li",
        "span",
        "main",
        "section",
        "p",
        "time",
        "article",
        "pre",
        "code",
        "img",
        "strong",
        "em",
        "del",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "blockquote",
        "hr",
        "br",
    ];
    const ATTRIBUTES: &[&str] = &[
        "lang",
        "charset",
        "http-equiv",
        "content",
        "name",
        "class",
        "href",
        "id",
        "aria-label",
        "aria-labelledby",
        "datetime",
        "dir",
        "rel",
        "src",
        "alt",
        "start",
        "data-language",
        "title",
    ];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html.strip_prefix("<!DOCTYPE html>").unwrap();
    while let Some(at) = rest.find('<') {
        let tag = &rest[at + 1..];
        let name_end = tag
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '/')
            .unwrap();
        let name = &tag[..name_end];
        if let Some(name) = name.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "an end tag without its start tag");
            rest = &tag[name_end + 1..];
            continue;
        }
        assert!(ELEMENTS.contains(&name), "<{name}> is not allowed");
        let mut attributes = &tag[name_end..];
        while let Some(more) = attributes.strip_prefix(' ') {
            let (attribute, value) = more.split_once("=\"").unwrap();
            assert!(
                ATTRIBUTES.contains(&attribute),
                "attribute {attribute} of <{name}> is not allowed"
            );
            let (value, after) = value.split_once('"').unwrap();
            let safe_starts = ["#", "https://", "http://", "mailto:"];
            assert!(
                attribute != "href"
                    || safe_starts
                        .iter()
                        .any(|s| value.to_ascii_lowercase().starts_with(s)),
                "unsafe link {value}"
            );
            assert!(
                attribute != "src" || value.starts_with("data:image/"),
                "unsafe source {value}"
            );
            attributes = after;
        }
        rest = attributes.strip_prefix('>').unwrap();
        if !["meta", "img", "hr", "br"].contains(&name) {
            open.push(name);
        }
        if name == "style" {
            rest = &rest[rest.find("</style>").unwrap()..];
        }
    }
    assert_eq!(open, Vec::<&str>::new(), "elements without end tags");
}
