//! Checks inline data and links.

use crate::shape::{BASE64, Findings, MEDIA_TYPE, URL};

/// The image types that OpenAI and Anthropic accept.
pub(crate) const IMAGE_TYPES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

/// The media types that are accepted at one position of a history.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Accepted {
    Images,
    Pdf,
    Plain,
    Any,
}

pub(crate) fn check_base64(data: &str, at: &str, findings: &mut Findings) {
    if let Err(description) = validate_base64(data) {
        findings.add(at, BASE64, description);
    }
}

/// Returns why `data` is not canonical, padded base64 of the standard alphabet.
fn validate_base64(data: &str) -> Result<(), &'static str> {
    let bytes = data.as_bytes();
    if bytes.is_empty() {
        return Err("is empty");
    }
    if !bytes.len().is_multiple_of(4) {
        return Err("its length is no multiple of four");
    }
    let padding = bytes.iter().rev().take_while(|byte| **byte == b'=').count();
    if padding > 2 {
        return Err("has more than two padding characters");
    }
    let symbols = &bytes[..bytes.len() - padding];
    let mut last = 0; // the 6-bit value of the last symbol
    for byte in symbols {
        last = base64_value(*byte).ok_or("has a character outside the standard alphabet")?;
    }
    let unused = match padding {
        1 => last & 0b11,
        2 => last & 0b1111,
        _ => 0,
    };
    if unused != 0 {
        return Err("has bits after the last byte");
    }
    Ok(())
}

/// The 6-bit value of a symbol of the standard alphabet.
fn base64_value(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

pub(crate) fn check_media_type(name: &str, accepted: Accepted, at: &str, findings: &mut Findings) {
    let is_accepted = match accepted {
        Accepted::Images => IMAGE_TYPES.contains(&name),
        Accepted::Pdf => name == "application/pdf",
        Accepted::Plain => name == "text/plain",
        Accepted::Any => is_media_type(name),
    };
    if !is_accepted {
        findings.add(at, MEDIA_TYPE, format!("{name:?} is not accepted here"));
    }
}

fn is_media_type(name: &str) -> bool {
    let is_token = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
    };
    name.split_once('/')
        .is_some_and(|(top, sub)| is_token(top) && is_token(sub))
}

/// Checks a `data:TYPE;base64,DATA` URL.
pub(crate) fn check_data_url(url: &str, accepted: Accepted, at: &str, findings: &mut Findings) {
    let parts = url
        .strip_prefix("data:")
        .and_then(|rest| rest.split_once(";base64,"));
    let Some((name, data)) = parts else {
        findings.add(at, URL, "is no data:TYPE;base64,DATA URL");
        return;
    };
    check_media_type(name, accepted, at, findings);
    check_base64(data, at, findings);
}

/// Checks that a URL is absolute and has one of `schemes`, such as `https`.
pub(crate) fn check_link(url: &str, schemes: &[&str], at: &str, findings: &mut Findings) {
    let rest = schemes.iter().find_map(|scheme| {
        url.strip_prefix(scheme)
            .and_then(|rest| rest.strip_prefix("://"))
    });
    let has_no_whitespace = !url.contains(|c: char| c.is_whitespace() || c.is_control());
    let has_host = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    if !(has_no_whitespace && has_host) {
        let description = format!("is no absolute {} URL", schemes.join(" or "));
        findings.add(at, URL, description);
    }
}

/// Checks the URL of an image: an http or https URL, or a data URL that contains the image.
pub(crate) fn check_image_url(url: &str, at: &str, findings: &mut Findings) {
    if url.starts_with("data:") {
        check_data_url(url, Accepted::Images, at, findings);
    } else {
        check_link(url, &["http", "https"], at, findings);
    }
}
