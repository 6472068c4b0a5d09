//! `Filrouge-Session-Token`: the secret of an anonymous session (DESIGN §7).

use axum::http::{HeaderMap, HeaderValue, Response};
use filrouge_types::ErrorCode;
use secrecy::{ExposeSecret, SecretString};

use super::bearer::SESSION_TOKEN;
use crate::problem::Problem;

/// The secret that a request shows; `None` when it shows none.
///
/// # Errors
/// `invalid` when there are several, or one that is not 16 to 256 visible ASCII characters.
pub fn shown(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
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

/// Gives the caller the secret of the session that it has made, which it has to keep.
pub fn tell<B>(response: &mut Response<B>, token: &SecretString) {
    if let Ok(mut value) = HeaderValue::from_str(token.expose_secret()) {
        value.set_sensitive(true);
        response.headers_mut().insert(SESSION_TOKEN, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_visible_text_of_sixteen_to_256_characters() {
        let of = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(SESSION_TOKEN, HeaderValue::from_str(value).unwrap());
            }
            shown(&headers).map(|t| t.map(str::to_owned))
        };
        assert_eq!(of(&[]).unwrap(), None);
        for good in ["0123456789abcdef", &"~".repeat(256)] {
            assert_eq!(of(&[good]).unwrap().as_deref(), Some(good));
        }
        for bad in [
            &[""][..],
            &["0123456789abcde"],
            &["0123456789 abcdef"],
            &["0123456789abcdef\t"],
            &["0123456789abcdef", "0123456789abcdef"],
            &[&"~".repeat(257)],
        ] {
            let problem = of(bad).unwrap_err();
            assert_eq!(problem.0.code, ErrorCode::Invalid);
            assert!(!problem.0.detail.contains("abcde"), "{problem:?}");
        }
    }
}
