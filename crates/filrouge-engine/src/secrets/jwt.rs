//! Recognizes JSON web tokens (RFC 7519): a base64url header that names the signature algorithm, a dot, and a payload.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::read::{Alphabet, Text, decode};
use super::shape::Shape;
use super::verdict::{CredentialTail, Verdict, undecided_if};

/// The maximum number of characters of a header.
const HEADER_MAX: usize = 2048;
/// The minimum number of characters of a payload in base64url. For comparison, `{"a":1}` takes ten.
const PAYLOAD_MIN: usize = 8;

#[derive(Deserialize)]
struct Header {
    #[serde(rename = "alg")]
    _alg: IgnoredAny,
}

/// The verdict on a text from `start`, where `eyJ` is: the beginning of a JSON object in base64url.
pub(super) fn judge(text: Text<'_>, start: usize, _after: usize) -> Verdict {
    let header = text.run(start, Alphabet::Url, HEADER_MAX);
    if header.may_grow || text.may_arrive(header.end) {
        return Verdict::Undecided(start);
    }
    if text.get(header.end) != Some(b'.') {
        return Verdict::NoCredential;
    }
    let json = decode(&text.bytes[start..header.end]).unwrap_or_default();
    if serde_json::from_slice::<Header>(&json).is_err() {
        return Verdict::NoCredential;
    }
    let payload = text.run(header.end + 1, Alphabet::Url, PAYLOAD_MIN);
    if payload.count < PAYLOAD_MIN {
        return undecided_if(payload.may_grow, start);
    }
    let tail = CredentialTail::Run(Alphabet::Dotted);
    Verdict::with_tail(text, Shape::Jwt, start, payload.end, tail)
}
