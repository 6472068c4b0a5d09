//! Recognizes JSON web tokens (RFC 7519): a base64url header that names the signature algorithm, a dot, and a payload.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::read::{Class, Text, decode};
use super::shape::Shape;
use super::verdict::{CredentialTail, Verdict, short};

/// The maximum number of characters of a header.
const HEADER_MAX: usize = 2048;
/// The minimum number of characters of a payload in base64url. As a comparison, `{"a":1}` has ten.
const PAYLOAD_LEAST: usize = 8;

#[derive(Deserialize)]
struct Header {
    #[serde(rename = "alg")]
    _alg: IgnoredAny,
}

pub(super) fn judge(text: Text<'_>, start: usize) -> Verdict {
    if !text.begins(start) {
        return Verdict::No;
    }
    let header = text.run(start, Class::Url, HEADER_MAX);
    if header.open {
        return Verdict::More(start);
    }
    if text.unknown(header.end) {
        return Verdict::More(start);
    }
    if text.get(header.end) != Some(b'.') {
        return Verdict::No;
    }
    let json = decode(&text.bytes[start..header.end]).unwrap_or_default();
    if serde_json::from_slice::<Header>(&json).is_err() {
        return Verdict::No;
    }
    let payload = text.run(header.end + 1, Class::Url, PAYLOAD_LEAST);
    if payload.count < PAYLOAD_LEAST {
        return short(payload, start);
    }
    Verdict::extending(
        text,
        Shape::Jwt,
        start,
        payload.end,
        CredentialTail::Run(Class::Dotted),
    )
}
