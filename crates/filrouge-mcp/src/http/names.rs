//! Checks the host names in a request's `Host` and `Origin`.

use http::uri::Authority;
use http::{HeaderMap, Uri, header};

/// Whether the request's host and, if it has an `Origin`, the host of that page are among `hosts`. Returns true for a
/// request without a host: the SDK refuses it.
pub(super) fn are_known(uri: &Uri, headers: &HeaderMap, hosts: &[String]) -> bool {
    let host = match headers.get(header::HOST) {
        Some(host) => host.to_str().ok().and_then(|host| host.parse().ok()),
        None => uri.authority().cloned(),
    };
    let no_host = !headers.contains_key(header::HOST) && uri.authority().is_none();
    let is_here = |host: &Authority| hosts.iter().any(|known| is_named(host, known));
    if !no_host && !host.as_ref().is_some_and(is_here) {
        return false;
    }
    let Some(origin) = headers.get(header::ORIGIN) else {
        return true;
    };
    let origin = origin.to_str().ok().and_then(|origin| origin.parse().ok());
    origin.is_some_and(|origin: Uri| {
        let is_page = matches!(origin.scheme_str(), Some("http" | "https"));
        is_page && origin.authority().is_some_and(is_here)
    })
}

/// Whether an authority matches the name `known`. A name without a port matches any port.
fn is_named(host: &Authority, known: &str) -> bool {
    let bare = |name: &str| name.trim_matches(['[', ']']).to_ascii_lowercase();
    let is_bare_ipv6 = known.matches(':').count() > 1 && !known.starts_with('[');
    let (name, port) = match known.rsplit_once(':') {
        Some((name, port)) if !is_bare_ipv6 && port.bytes().all(|b| b.is_ascii_digit()) => {
            (name, port.parse().ok())
        }
        _ => (known, None),
    };
    bare(host.host()) == bare(name) && port.is_none_or(|port: u16| host.port_u16() == Some(port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_hosts_and_origins_are_accepted() {
        let hosts = ["localhost", "::1", "example.org:8080"].map(str::to_owned);
        let accepted = |host: &'static str, origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            are_known(&Uri::from_static("/mcp"), &headers, &hosts)
        };
        for host in ["localhost", "LOCALHOST:7", "[::1]:80", "example.org:8080"] {
            assert!(accepted(host, None), "{host}");
        }
        for host in [
            "evil.example",
            "example.org",
            "example.org:80",
            "localhost.evil",
            "a b",
        ] {
            assert!(!accepted(host, None), "{host}");
        }
        assert!(accepted("localhost", Some("https://localhost:3000")));
        for origin in [
            "null",
            "https://evil.example",
            "file://localhost",
            "localhost",
        ] {
            assert!(!accepted("localhost", Some(origin)), "{origin}");
        }
        assert!(are_known(
            &Uri::from_static("/mcp"),
            &HeaderMap::new(),
            &hosts
        ));
    }
}
