//! `Filrouge-Session-Token`: the secret of an anonymous session (DESIGN §7).

use axum::http::{HeaderMap, HeaderValue, Response};
use filrouge_types::ErrorCode;
use secrecy::{ExposeSecret, SecretString};

use super::bearer::SESSION_TOKEN;
use crate::problem::Problem;

/// Returns the secret that a request presents; `None` if it presents none.
///
/// # Errors
/// `invalid` if the request presents several, or one that does not have 16 to 256 visible ASCII characters.
pub fn presented(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(SESSION_TOKEN).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let text = value.to_str().ok().filter(|text| {
        (16..=256).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
    });
    match (text, values.next()) {
        (Some(text), None) => Ok(Some(text)),
        _ => Err(Problem::new(
            ErrorCode::Invalid,
            "Filrouge-Session-Token must be one value of 16 to 256 visible ASCII characters",
        )),
    }
}

/// Adds the secret of a newly created session to the response. It is sent only this once, so the caller has to keep it.
pub fn add_session_token<B>(response: &mut Response<B>, token: &SecretString) {
    if let Ok(mut value) = HeaderValue::from_str(token.expose_secret()) {
        value.set_sensitive(true);
        response.headers_mut().insert(SESSION_TOKEN, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_text_of_16_to_256_visible_characters() {
        let parsed = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(SESSION_TOKEN, HeaderValue::from_str(value).unwrap());
            }
            presented(&headers).map(|t| t.map(str::to_owned))
        };
        assert_eq!(parsed(&[]).unwrap(), None);
        for good in ["0123456789abcdef", &"~".repeat(256)] {
            assert_eq!(parsed(&[good]).unwrap().as_deref(), Some(good));
        }
        for bad in [
            &[""][..],
            &["0123456789abcde"],
            &["0123456789 abcdef"],
            &["0123456789abcdef\t"],
            &["0123456789abcdef", "0123456789abcdef"],
            &[&"~".repeat(257)],
        ] {
            let problem = parsed(bad).unwrap_err();
            assert_eq!(problem.0.code, ErrorCode::Invalid);
            assert!(!problem.0.detail.contains("abcde"), "{problem:?}");
        }
    }
}
