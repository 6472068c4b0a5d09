//! Checks the host names in a request's `Host` and `Origin`.

use filrouge_types::Host;
use http::{HeaderMap, HeaderName, header};

/// Whether the request's host and, if it has an `Origin`, the host of that page are among `hosts`.
pub(super) fn are_accepted(headers: &HeaderMap, hosts: &[String]) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    let is_accepted = |text: &str| {
        let host = Host::parse(text);
        host.is_some_and(|host| hosts.iter().any(|name| matches_name(host, name)))
    };
    let is_accepted_origin = |origin: &str| {
        let web = ["http://", "https://"];
        let host = web.iter().find_map(|scheme| origin.strip_prefix(scheme));
        host.is_some_and(is_accepted)
    };
    text(header::HOST).is_some_and(is_accepted)
        && text(header::ORIGIN).is_none_or(is_accepted_origin)
}

/// Whether a host matches the name `accepted_name`. A name without a port matches any port. An IPv6 address without a
/// port may be without brackets.
fn matches_name(host: Host<'_>, accepted_name: &str) -> bool {
    let bare_address = Host {
        name: accepted_name,
        port: None,
    };
    let accepted = Host::parse(accepted_name).unwrap_or(bare_address);
    host.name.eq_ignore_ascii_case(accepted.name)
        && accepted.port.is_none_or(|port| host.port == Some(port))
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
            are_accepted(&headers, &hosts)
        };
        for host in ["localhost", "LOCALHOST:7", "[::1]:80", "example.org:8080"] {
            assert!(are_accepted_for(host, None), "{host}");
        }
        for host in [
            "evil.example",
            "example.org",
            "example.org:80",
            "localhost.evil",
            "localhost:1@evil.example",
            "evil.example@localhost",
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
        assert!(!are_accepted(&HeaderMap::new(), &hosts));
    }
}
