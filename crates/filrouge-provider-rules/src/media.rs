//! Checks inline data and links.

use crate::shape::{BASE64, Findings, MEDIA_TYPE, URL};

/// The image types that OpenAI and Anthropic accept.
pub(crate) const IMAGES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

/// The media types that are accepted at one place.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Accept {
    Images,
    Pdf,
    Plain,
    Any,
}

pub(crate) fn base64(data: &str, at: &str, findings: &mut Findings) {
    if let Err(what) = standard_base64(data) {
        findings.add(at, BASE64, what);
    }
}

fn standard_base64(data: &str) -> Result<(), &'static str> {
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
    let digits = &bytes[..bytes.len() - padding];
    let mut last = 0;
    for byte in digits {
        last = digit(*byte).ok_or("has a character outside the standard alphabet")?;
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

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

pub(crate) fn media_type(name: &str, accept: Accept, at: &str, findings: &mut Findings) {
    let known = match accept {
        Accept::Images => IMAGES.contains(&name),
        Accept::Pdf => name == "application/pdf",
        Accept::Plain => name == "text/plain",
        Accept::Any => is_media_type(name),
    };
    if !known {
        findings.add(at, MEDIA_TYPE, format!("{name:?} is not accepted here"));
    }
}

fn is_media_type(name: &str) -> bool {
    let token = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
    };
    name.split_once('/')
        .is_some_and(|(top, sub)| token(top) && token(sub))
}

/// Checks a `data:TYPE;base64,DATA` URL.
pub(crate) fn data_url(url: &str, accept: Accept, at: &str, findings: &mut Findings) {
    let parts = url
        .strip_prefix("data:")
        .and_then(|rest| rest.split_once(";base64,"));
    let Some((name, data)) = parts else {
        findings.add(at, URL, "is no data:TYPE;base64,DATA URL");
        return;
    };
    media_type(name, accept, at, findings);
    base64(data, at, findings);
}

/// Checks that a URL is absolute, and has one of `schemes`, such as `https`.
pub(crate) fn link(url: &str, schemes: &[&str], at: &str, findings: &mut Findings) {
    let rest = schemes.iter().find_map(|scheme| {
        url.strip_prefix(scheme)
            .and_then(|rest| rest.strip_prefix("://"))
    });
    let clean = !url.contains(|c: char| c.is_whitespace() || c.is_control());
    let host = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    if !(clean && host) {
        let what = format!("is no absolute {} URL", schemes.join(" or "));
        findings.add(at, URL, what);
    }
}

/// Checks the URL of an image: an http or https URL, or a data URL that contains the image.
pub(crate) fn image_url(url: &str, at: &str, findings: &mut Findings) {
    if url.starts_with("data:") {
        data_url(url, Accept::Images, at, findings);
    } else {
        link(url, &["http", "https"], at, findings);
    }
}
