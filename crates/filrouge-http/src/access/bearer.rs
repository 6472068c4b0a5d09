//! Reads credentials from the header `Authorization: Bearer …` (RFC 6750); they are accepted nowhere else.

use axum::http::{HeaderMap, HeaderName, header};

/// The header with the secret of an anonymous session (DESIGN §7).
pub(crate) const SESSION_TOKEN: HeaderName = HeaderName::from_static("filrouge-session-token");

/// The maximum length of credentials in bytes.
const CREDENTIALS_MAX_BYTES: usize = 8 << 10;

/// The credentials of a request. `None` if there are none or several, or if their scheme or form is another.
pub(super) fn credentials(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim_matches(' ');
    let is_well_formed = !token.is_empty()
        && token.len() <= CREDENTIALS_MAX_BYTES
        && token.bytes().all(|b| b.is_ascii_graphic() && b != b',');
    (scheme.eq_ignore_ascii_case("bearer") && is_well_formed).then_some(token)
}

/// Marks the values of secret headers as sensitive, so that `Debug` of a header map does not print them.
pub(super) fn mark_sensitive(headers: &mut HeaderMap) {
    for name in [
        header::AUTHORIZATION,
        header::PROXY_AUTHORIZATION,
        header::COOKIE,
        SESSION_TOKEN,
    ] {
        if let header::Entry::Occupied(mut entry) = headers.entry(name) {
            for value in entry.iter_mut() {
                value.set_sensitive(true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn parsed(values: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(
                header::AUTHORIZATION,
                HeaderValue::from_bytes(value.as_bytes()).unwrap(),
            );
        }
        credentials(&headers).map(str::to_owned)
    }

    #[test]
    fn exactly_one_bearer_is_accepted() {
        for good in ["Bearer abc", "bearer abc", "BEARER  abc "] {
            assert_eq!(parsed(&[good]).as_deref(), Some("abc"));
        }
        for bad in [
            &[][..],
            &["abc"],
            &["Bearer"],
            &["Bearer "],
            &["Basic abc"],
            &["Bearerabc"],
            &["Bearer\tabc"],
            &["Bearer a b"],
            &["Bearer abc, Bearer def"],
            &["Bearer abc", "Bearer abc"],
            &["Basic abc", "Bearer abc"],
            &["Bearer \u{e9}"],
        ] {
            assert_eq!(parsed(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_printed_header_map_hides_credentials() {
        let mut headers = HeaderMap::new();
        for name in ["authorization", "filrouge-session-token", "cookie"] {
            headers.append(name, HeaderValue::from_static("canary one"));
            headers.append(name, HeaderValue::from_static("canary two"));
        }
        mark_sensitive(&mut headers);
        assert!(!format!("{headers:?}").contains("canary"));
    }
}
