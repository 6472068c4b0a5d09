//! Reads the fields of a form that has a file (`multipart/form-data`, RFC 7578).

/// The maximum number of fields of a form.
const FIELDS_MAX: usize = 16;
/// The end of a field's head.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// The fields of a form: their names and contents.
pub(crate) type Fields<'a> = Vec<(String, &'a [u8])>;

/// Splits the body of a form into its fields; `None` if it is no complete form of this type, or has more than
/// [`FIELDS_MAX`] fields.
pub(crate) fn fields<'a>(content_type: &str, body: &'a [u8]) -> Option<Fields<'a>> {
    let delimiter = format!("\r\n--{}", boundary(content_type)?);
    let delimiter = delimiter.as_bytes();
    let mut rest = body.strip_prefix(delimiter.get(2..)?)?;
    let mut fields = Vec::new();
    while !rest.starts_with(b"--") {
        let field = rest.strip_prefix(b"\r\n")?;
        let (field, after) = field.split_at_checked(find(field, delimiter)?)?;
        let (head, content) = field.split_at_checked(find(field, HEAD_END)?)?;
        if fields.len() == FIELDS_MAX {
            return None;
        }
        fields.push((name(head)?, content.get(HEAD_END.len()..)?));
        rest = after.get(delimiter.len()..)?;
    }
    Some(fields)
}

/// The boundary between fields; `None` for another type.
fn boundary(content_type: &str) -> Option<&str> {
    let mut parameters = content_type.split(';').map(str::trim);
    let essence = parameters.next()?;
    if !essence.eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let value = value.trim_matches('"');
        name.eq_ignore_ascii_case("boundary").then_some(value)
    });
    boundary.filter(|boundary| (1..=70).contains(&boundary.len()))
}

/// The name of a field, from its head.
fn name(head: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(head);
    let disposition = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_disposition = name.trim().eq_ignore_ascii_case("content-disposition");
        is_disposition.then_some(value)
    });
    let mut parameters = disposition?.split(';').map(str::trim);
    let quoted = parameters.find_map(|parameter| parameter.strip_prefix("name="))?;
    Some(quoted.trim_matches('"').to_owned())
}

/// The position of `text`, which begins with a carriage return.
fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let remaining = bytes.get(from..)?;
        let at = from + remaining.iter().position(|byte| *byte == b'\r')?;
        if bytes.get(at..)?.starts_with(text) {
            return Some(at);
        }
        from = at + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=\"x\"";

    #[test]
    fn a_form_is_split_into_its_fields() {
        let body = b"--x\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\n\r\n--x\r\ncontent-disposition: form-data; \
                     name=\"file\"; filename=\"a; name=b\"\r\nContent-Type: application/json\r\n\r\n\r\r\n-\r\n--\x00\r\n--x--\r\n";
        let expected: Fields<'_> = vec![
            ("key".to_owned(), &b""[..]),
            ("file".to_owned(), &b"\r\r\n-\r\n--\x00"[..]),
        ];
        assert_eq!(fields(TYPE, body), Some(expected));
        assert_eq!(fields(TYPE, b"--x--"), Some(Vec::new()));
    }

    #[test]
    fn other_bodies_are_no_form() {
        let field = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n";
        let complete = format!("{field}--x--");
        assert!(fields(TYPE, complete.as_bytes()).is_some());
        for end in 0..complete.len() {
            assert_eq!(fields(TYPE, &complete.as_bytes()[..end]), None, "{end}");
        }
        let many = format!("{}--x--", field.repeat(FIELDS_MAX + 1));
        assert_eq!(fields(TYPE, many.as_bytes()), None);
        for other in [
            "",
            "text/plain; boundary=x",
            "multipart/form-data",
            "multipart/form-data; boundary=",
        ] {
            assert_eq!(fields(other, complete.as_bytes()), None, "{other}");
        }
    }
}
