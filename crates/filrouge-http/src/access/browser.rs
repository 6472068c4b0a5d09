//! Browsers: the cookie of a sign-in, and the rule that only this server's own pages may change something.

use axum::http::{HeaderMap, HeaderValue, Method, header};
use filrouge_types::ErrorCode;

use crate::problem::Problem;

/// The name of the cookie with a sign-in.
const COOKIE: &str = "filrouge-sign-in";

/// The header `Set-Cookie` that keeps a sign-in for `seconds`. Scripts cannot read the cookie, and forms of other sites
/// do not send it. If the page that signs in came over TLS, browsers send the cookie over TLS only.
pub fn signed_in_header(sign_in: &str, seconds: u64, headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN);
    let secure = match origin.is_some_and(|origin| origin.as_bytes().starts_with(b"https:")) {
        true => "; Secure",
        false => "",
    };
    let text =
        format!("{COOKIE}={sign_in}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The header `Set-Cookie` that removes a sign-in.
pub fn signed_out_header() -> HeaderValue {
    HeaderValue::from_static("filrouge-sign-in=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax")
}

/// Returns the sign-in among a request's cookies; `None` if there is none or several.
pub(super) fn presented_sign_in(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter();
    let pairs = cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    let mut sign_ins = pairs.filter_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == COOKIE && !value.is_empty()).then_some(value)
    });
    match (sign_ins.next(), sign_ins.next()) {
        (sign_in, None) => sign_in,
        _ => None,
    }
}

/// Refuses a request that may change something unless it comes from a page of this server, or from a program that is no
/// browser. Browsers name a page's site in `Sec-Fetch-Site`, except over plain HTTP to another machine; then `Origin`
/// is compared with `Host`.
pub(super) fn check_same_origin(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    if method.is_safe() {
        return Ok(());
    }
    let text = |name: &str| headers.get(name).map(|v| v.to_str().unwrap_or("?"));
    let is_own = match (text("sec-fetch-site"), text("origin"), text("host")) {
        (Some(site), ..) => matches!(site, "same-origin" | "none"),
        (None, Some(origin), Some(host)) => origin
            .split_once("://")
            .is_some_and(|(_, authority)| authority == host),
        (None, origin, _) => origin.is_none(),
    };
    if is_own {
        return Ok(());
    }
    let detail = "the request comes from a page of another site";
    Err(Problem::new(ErrorCode::Forbidden, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn only_own_pages_change_something() {
        let host = ("host", "a.example:80");
        let accepted = |method: Method, pairs: &[(&'static str, &'static str)]| {
            let pairs = [pairs, &[host]].concat();
            check_same_origin(&method, &headers(&pairs)).is_ok()
        };
        let other = ("sec-fetch-site", "same-site");
        assert!(accepted(Method::GET, &[other]));
        assert!(accepted(Method::POST, &[("sec-fetch-site", "same-origin")]));
        assert!(accepted(Method::POST, &[]));
        assert!(accepted(Method::POST, &[("origin", "http://a.example:80")]));
        assert!(!accepted(Method::POST, &[other]));
        assert!(!accepted(Method::POST, &[("sec-fetch-site", "cross-site")]));
        assert!(!accepted(Method::POST, &[("origin", "http://b.example")]));
        assert!(!accepted(Method::POST, &[("origin", "null")]));
    }

    #[test]
    fn one_cookie_is_a_sign_in() {
        let read = |pairs: &[(&'static str, &'static str)]| {
            presented_sign_in(&headers(pairs)).map(str::to_owned)
        };
        let cookie = |text| ("cookie", text);
        let two = "a=b; filrouge-sign-in=x.y; c=d";
        assert_eq!(read(&[cookie(two)]).as_deref(), Some("x.y"));
        assert_eq!(read(&[cookie("filrouge-sign-in=")]), None);
        assert_eq!(read(&[cookie(two), cookie(two)]), None);
        assert_eq!(read(&[]), None);
    }
}
