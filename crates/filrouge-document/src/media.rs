//! Reads pictures and files in every dialect of parts.

use filrouge_types::Members;

use crate::part::{FilePart, Kind, take_text, take_unique};
use crate::url;

/// Possible names of the member with a media type.
const MEDIA_TYPE_NAMES: [&str; 4] = ["media_type", "mime", "mime_type", "mimeType"];

/// Members whose value is an object with the fields that other dialects write into the part itself.
const INNER_OBJECTS: [&str; 3] = ["image_url", "file", "source"];

/// A picture; `None` without an address or data.
pub(crate) fn image(members: &mut Members<'_>) -> Option<Kind<'static>> {
    let url = read_source(members).url?;
    Some(Kind::Image { url })
}

/// A file, with or without its data.
pub(crate) fn file(members: &mut Members<'_>) -> Kind<'static> {
    let name = first_text(members, &["name", "filename"]);
    let mut file = read_source(members);
    file.name = name.or(file.name);
    Kind::File(file)
}

fn first_text(members: &mut Members<'_>, names: &[&str]) -> Option<String> {
    names.iter().find_map(|n| take_text(members, n))
}

/// Reads the media type and the address from the part or, if the part has no address, from its inner object
/// ([`INNER_OBJECTS`]), whose file name is then read, too. Members of the inner object that are not read are appended
/// to `members`.
fn read_source(members: &mut Members<'_>) -> FilePart {
    let media_type = first_text(members, &MEDIA_TYPE_NAMES);
    let mut file = FilePart {
        name: None,
        url: address(members, media_type.as_deref()),
        media_type,
    };
    let mut inner_objects = INNER_OBJECTS.iter().filter(|_| file.url.is_none());
    let json = inner_objects.find_map(|n| take_unique(members, n, has_address));
    let Some(mut inner) = json.and_then(Members::parse) else {
        return file;
    };
    let inner_type = || first_text(&mut inner, &MEDIA_TYPE_NAMES);
    file.media_type = file.media_type.or_else(inner_type);
    file.url = address(&mut inner, file.media_type.as_deref());
    file.name = first_text(&mut inner, &["name", "filename"]);
    // The inner `type` only names the member with the content, so it is dropped.
    take_unique(&mut inner, "type", |v| {
        matches!(v, "\"base64\"" | "\"url\"")
    });
    members.0.append(&mut inner.0);
    file
}

fn has_address(json: &str) -> bool {
    Members::parse(json).is_some_and(|mut m| address(&mut m, None).is_some())
}

/// The data of the part or inner object as a `data:` address, or else its address.
fn address(members: &mut Members<'_>, media_type: Option<&str>) -> Option<String> {
    let is_data = |json: &str| {
        let text = crate::json::decode_string(json);
        text.is_some_and(|t| url::is_data(&t) || url::compact_base64(&t).is_some())
    };
    for name in ["data", "file_data"] {
        if let Some(text) = take_unique(members, name, is_data).and_then(crate::json::decode_string)
        {
            if url::is_data(&text) {
                return Some(text);
            }
            let media_type = media_type.unwrap_or_default().trim();
            return Some(format!(
                "data:{media_type};base64,{}",
                url::compact_base64(&text)?
            ));
        }
    }
    first_text(members, &["url", "image_url"])
}

#[cfg(test)]
mod tests {
    use crate::part::{FilePart, Kind, parts};

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
            assert_eq!(part.other_members, None);
        }
        for json in [
            r#"[{"type":"file","file":{"filename":"a","file_data":"data:application/pdf;base64,AAAA"}}]"#,
            r#"[{"type":"file","name":"a","mime":"application/pdf","data":"AAAA"}]"#,
        ] {
            let part = &parts(json)[0];
            assert!(
                matches!(&part.kind, Kind::File(FilePart { name: Some(n), url: Some(u), .. })
                    if n == "a" && u == "data:application/pdf;base64,AAAA"),
                "{json}"
            );
            assert_eq!(part.other_members, None);
        }
    }

    #[test]
    fn members_without_an_address_are_kept() {
        let json = r#"[{"type":"file","name":"a","data":"no base64","source":{"path":"x"}}]"#;
        assert_eq!(
            parts(json)[0].other_members.as_deref(),
            Some(r#"{"data":"no base64","source":{"path":"x"}}"#)
        );
    }
}
