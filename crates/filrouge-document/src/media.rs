//! Reads pictures and files in every dialect of parts.

use filrouge_types::Members;

use crate::part::{Kind, take, text};
use crate::url;

/// Possible names of the member with a media type.
const TYPES: [&str; 4] = ["media_type", "mime", "mime_type", "mimeType"];

/// Members whose value is an object with the fields that other dialects write into the part itself.
const INNER: [&str; 3] = ["image_url", "file", "source"];

/// A picture; `None` without an address or data.
pub(crate) fn image(from: &mut Members<'_>) -> Option<Kind<'static>> {
    let (mut media_type, mut url) = (None, None);
    read(from, &mut media_type, &mut url);
    Some(Kind::Image { url: url? })
}

/// A file, with or without its data.
pub(crate) fn file(from: &mut Members<'_>) -> Kind<'static> {
    let (mut media_type, mut url) = (None, None);
    let mut name = first(from, &["name", "filename"]);
    if let Some(inner) = read(from, &mut media_type, &mut url) {
        name = name.or(Some(inner));
    }
    Kind::File {
        name,
        media_type,
        url,
    }
}

fn first(from: &mut Members<'_>, names: &[&str]) -> Option<String> {
    names.iter().find_map(|n| text(from, n))
}

/// Reads the media type and the address from the part or, if the part has no address, from its inner object
/// ([`INNER`]). Returns the file name in the inner object. Members of the inner object that are not read are appended
/// to `from`.
fn read(
    from: &mut Members<'_>,
    media_type: &mut Option<String>,
    url: &mut Option<String>,
) -> Option<String> {
    *media_type = first(from, &TYPES);
    *url = address(from, media_type.as_deref());
    if url.is_some() {
        return None;
    }
    let json = INNER.iter().find_map(|n| take(from, n, has_address))?;
    let mut inner = Members::of(json)?;
    if media_type.is_none() {
        *media_type = first(&mut inner, &TYPES);
    }
    *url = address(&mut inner, media_type.as_deref());
    let name = first(&mut inner, &["name", "filename"]);
    // The inner `type` only says which member has the content, so it is dropped.
    take(&mut inner, "type", |v| {
        matches!(v, "\"base64\"" | "\"url\"")
    });
    from.0.append(&mut inner.0);
    name
}

fn has_address(json: &str) -> bool {
    Members::of(json).is_some_and(|mut m| address(&mut m, None).is_some())
}

/// The data of the part or inner object as a `data:` address; without data, its address.
fn address(from: &mut Members<'_>, media_type: Option<&str>) -> Option<String> {
    let is_data = |json: &str| {
        let text = crate::json::string(json);
        text.is_some_and(|t| url::is_data(&t) || url::compact(&t).is_some())
    };
    for name in ["data", "file_data"] {
        if let Some(text) = take(from, name, is_data).and_then(crate::json::string) {
            if url::is_data(&text) {
                return Some(text);
            }
            let kind = media_type.unwrap_or_default().trim();
            return Some(format!("data:{kind};base64,{}", url::compact(&text)?));
        }
    }
    first(from, &["url", "image_url"])
}

#[cfg(test)]
mod tests {
    use crate::part::{Kind, parts};

    #[test]
    fn pictures_and_files_are_read_in_every_dialect() {
        for json in [
            r#"[{"type":"image_url","data":"AAAA","mime":"image/png"}]"#,
            r#"[{"type":"image","data":"AAAA","mimeType":"image/png"}]"#,
            r#"[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA\nAA"}}]"#,
            r#"[{"type":"image","data":"data:image/png;base64,AAAA"}]"#,
        ] {
            let part = &parts(json)[0];
            assert!(
                matches!(&part.kind, Kind::Image { url } if url == "data:image/png;base64,AAAA"),
                "{json}"
            );
            assert_eq!(part.rest, None);
        }
        for json in [
            r#"[{"type":"file","file":{"filename":"a","file_data":"data:application/pdf;base64,AAAA"}}]"#,
            r#"[{"type":"file","name":"a","mime":"application/pdf","data":"AAAA"}]"#,
        ] {
            let part = &parts(json)[0];
            assert!(
                matches!(&part.kind, Kind::File { name: Some(n), url: Some(u), .. }
                    if n == "a" && u == "data:application/pdf;base64,AAAA"),
                "{json}"
            );
            assert_eq!(part.rest, None);
        }
    }

    #[test]
    fn members_without_an_address_stay_in_the_rest() {
        let json = r#"[{"type":"file","name":"a","data":"no base64","source":{"path":"x"}}]"#;
        assert_eq!(
            parts(json)[0].rest.as_deref(),
            Some(r#"{"data":"no base64","source":{"path":"x"}}"#)
        );
    }
}
