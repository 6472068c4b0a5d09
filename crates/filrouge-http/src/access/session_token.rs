//! `Filrouge-Session-Token`: the secret of an anonymous session (DESIGN §7).

use axum::http::{HeaderMap, HeaderValue, Response};
use filrouge_store::{Entropy, Scope};
use filrouge_types::{ErrorCode, Failure};
use secrecy::{ExposeSecret, SecretString};

use super::bearer::SESSION_TOKEN;
use crate::layer::HttpLayer;
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

/// A secret made for a session that may be made: its caller is told of it when it was.
pub struct FreshToken(SecretString);

impl FreshToken {
    /// Gives `scope` a secret if a session that it makes needs one and the caller has not brought its own.
    ///
    /// # Errors
    /// `internal` when there is no randomness.
    pub fn for_new_session(
        http: &HttpLayer,
        entropy: &dyn Entropy,
        scope: &mut Scope,
    ) -> Result<Option<Self>, Problem> {
        // An operator's session is anonymous too: nobody is its owner.
        let anonymous = scope.viewer.identity().is_none();
        if !http.authority().require_session_token() || !anonymous || scope.token.is_some() {
            return Ok(None);
        }
        let mut bytes = [0; 32];
        entropy
            .fill(&mut bytes)
            .map_err(|e| Failure::new(ErrorCode::Internal, e))?;
        let text: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        scope.token = Some(http.engine().ledger().keyring().session_token(&text));
        Ok(Some(Self(text.into())))
    }

    /// Tells the caller, who has to keep it.
    pub fn tell<B>(&self, response: &mut Response<B>) {
        if let Ok(mut value) = HeaderValue::from_str(self.0.expose_secret()) {
            value.set_sensitive(true);
            response.headers_mut().insert(SESSION_TOKEN, value);
        }
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
