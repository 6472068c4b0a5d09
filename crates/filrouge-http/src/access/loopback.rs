//! The loopback rule: while the server needs no credentials, only callers on this machine are accepted, and only if
//! they address it by a loopback name. So a browser page of another site cannot reach the server by DNS rebinding,
//! where that site's host name resolves to this machine (DESIGN §8).

use axum::http::{HeaderMap, HeaderValue, header};
use filrouge_types::{ErrorCode, Host};

use crate::problem::Problem;

fn is_loopback_name(text: &str) -> bool {
    Host::parse(text).is_some_and(|host| host.is_loopback())
}

/// Refuses a request whose `Host` is no loopback name, or whose `Origin` is none, unless `origin_is_allowed`.
pub(super) fn check(headers: &HeaderMap, origin_is_allowed: bool) -> Result<(), Problem> {
    let text = |name| {
        let value: Option<&HeaderValue> = headers.get(name);
        value.map(|value| value.to_str().unwrap_or(""))
    };
    let is_foreign_host = |host: &&str| !is_loopback_name(host);
    let is_foreign_origin = |origin: &&str| {
        let authority = origin.split_once("://").map_or("", |(_, a)| a);
        !origin_is_allowed && !is_loopback_name(authority)
    };
    let detail = if let Some(host) = text(header::HOST).filter(is_foreign_host) {
        format!("the Host {host:?} is not this machine")
    } else if let Some(origin) = text(header::ORIGIN).filter(is_foreign_origin) {
        format!("the Origin {origin:?} is not this machine")
    } else {
        return Ok(());
    };
    Err(Problem::new(ErrorCode::Forbidden, detail))
}
