//! Checks the host names in a request's `Host` and `Origin`.

use http::uri::Authority;
use http::{HeaderMap, Uri, header};

/// Whether the request's host and, if it has an `Origin`, the host of that page are among `hosts`. Returns true for a
/// request without a host: the SDK refuses it.
pub(super) fn are_accepted(uri: &Uri, headers: &HeaderMap, hosts: &[String]) -> bool {
    let host = match headers.get(header::HOST) {
        Some(host) => host.to_str().ok().and_then(|host| host.parse().ok()),
        None => uri.authority().cloned(),
    };
    let has_no_host = !headers.contains_key(header::HOST) && uri.authority().is_none();
    let is_accepted = |host: &Authority| hosts.iter().any(|name| matches_name(host, name));
    if !has_no_host && !host.as_ref().is_some_and(is_accepted) {
        return false;
    }
    let Some(origin) = headers.get(header::ORIGIN) else {
        return true;
    };
    let origin = origin.to_str().ok().and_then(|origin| origin.parse().ok());
    origin.is_some_and(|origin: Uri| {
        let is_web = matches!(origin.scheme_str(), Some("http" | "https"));
        is_web && origin.authority().is_some_and(is_accepted)
    })
}

/// Whether an authority matches the name `accepted_name`. A name without a port matches any port.
fn matches_name(host: &Authority, accepted_name: &str) -> bool {
    let normalized = |name: &str| name.trim_matches(['[', ']']).to_ascii_lowercase();
    let is_bare_ipv6 = accepted_name.matches(':').count() > 1 && !accepted_name.starts_with('[');
    let (name, port) = match accepted_name.rsplit_once(':') {
        Some((name, port)) if !is_bare_ipv6 && port.bytes().all(|b| b.is_ascii_digit()) => {
            (name, port.parse().ok())
        }
        _ => (accepted_name, None),
    };
    normalized(host.host()) == normalized(name)
        && port.is_none_or(|port: u16| host.port_u16() == Some(port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_hosts_and_origins_are_accepted() {
        let hosts = ["localhost", "::1", "example.org:8080"].map(str::to_owned);
        let are_accepted_for = |host: &'static str, origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            are_accepted(&Uri::from_static("/mcp"), &headers, &hosts)
        };
        for host in ["localhost", "LOCALHOST:7", "[::1]:80", "example.org:8080"] {
            assert!(are_accepted_for(host, None), "{host}");
        }
        for host in [
            "evil.example",
            "example.org",
            "example.org:80",
            "localhost.evil",
            "a b",
        ] {
            assert!(!are_accepted_for(host, None), "{host}");
        }
        assert!(are_accepted_for(
            "localhost",
            Some("https://localhost:3000")
        ));
        for origin in [
            "null",
            "https://evil.example",
            "file://localhost",
            "localhost",
        ] {
            assert!(!are_accepted_for("localhost", Some(origin)), "{origin}");
        }
        assert!(are_accepted(
            &Uri::from_static("/mcp"),
            &HeaderMap::new(),
            &hosts
        ));
    }
}
