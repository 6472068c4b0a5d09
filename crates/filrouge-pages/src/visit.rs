//! A visit: who requests a page, and in which language it is shown.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use filrouge_engine::Caller;
use filrouge_http::access::{Permission, Principal};

use crate::words::Language;

/// What a page's frame depends on besides its content.
pub(crate) struct Visit {
    /// The visitor's language.
    pub(crate) language: Language,
    /// The id of the API key, or the subject of the token, with which the visitor has signed in; `None` while the
    /// server needs no credentials.
    pub(crate) signed_in: Option<String>,
    /// For whom the request acts; `None` on a page that needs no credentials.
    caller: Option<Caller>,
}

impl Visit {
    /// Whether the visitor has a permission, so that the page shows what needs it.
    pub(crate) fn may(&self, permission: Permission) -> bool {
        let caller = self.caller.as_ref();
        caller.is_some_and(|caller| caller.has_permission(permission))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Visit {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let principal = parts.extensions.get::<Principal>();
        let caller = principal.and_then(|principal| {
            let end_user = principal.end_user(&parts.headers).ok()?;
            Some(principal.caller(end_user))
        });
        Ok(Self {
            caller,
            language: language_of(&parts.headers),
            signed_in: principal.and_then(Principal::name).map(subject),
        })
    }
}

/// The part of a principal's name that is shown. In that of a token, the tenant and a NUL precede the subject.
fn subject(name: &str) -> String {
    let (_, subject) = name.split_once('\0').unwrap_or(("", name));
    subject.to_owned()
}

/// The preferred language of `Accept-Language` among those of pages, otherwise English.
pub(crate) fn language_of(headers: &HeaderMap) -> Language {
    let accepted = headers.get(header::ACCEPT_LANGUAGE);
    let accepted = accepted.and_then(|value| value.to_str().ok()).unwrap_or("");
    let mut ranked: Vec<(u16, &str)> = accepted.split(',').filter_map(range).collect();
    ranked.sort_by_key(|(quality, _)| std::cmp::Reverse(*quality));
    let known = ranked.iter().find_map(|(_, tag)| {
        let primary = tag.split('-').next().unwrap_or(tag);
        let mut languages = Language::ALL.into_iter();
        languages.find(|language| language.tag().eq_ignore_ascii_case(primary))
    });
    known.unwrap_or(Language::English)
}

/// A language range of `Accept-Language` and its quality in thousandths; `None` if it is excluded.
fn range(text: &str) -> Option<(u16, &str)> {
    let (tag, parameters) = text.split_once(';').unwrap_or((text, ""));
    let quality = parameters.trim().strip_prefix("q=");
    let quality: f32 = quality.map_or(Some(1.0), |text| text.parse().ok())?;
    // A quality has at most three digits after the point.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let thousandths = (quality.clamp(0.0, 1.0) * 1000.0) as u16;
    (thousandths > 0).then_some((thousandths, tag.trim()))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_language_is_the_preferred_one_that_pages_speak() {
        let tag = |accepted: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_LANGUAGE, HeaderValue::from_static(accepted));
            language_of(&headers).tag()
        };
        assert_eq!(language_of(&HeaderMap::new()).tag(), "en");
        assert_eq!(tag("de-AT,de;q=0.9,en;q=0.8"), "de");
        assert_eq!(tag("ja, fr-CA;q=0.5, en;q=0.4"), "fr");
        assert_eq!(tag("fr;q=0, *"), "en");
        assert_eq!(tag("en;q=0.2, de;q=0.7"), "de");
        assert_eq!(tag(";;;,q="), "en");
    }
}
