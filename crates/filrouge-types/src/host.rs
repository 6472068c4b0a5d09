//! The names of hosts in HTTP requests.

use std::net::{IpAddr, Ipv6Addr};

/// A host with an optional port, as in the header `Host` (RFC 9112 §3.2), in an origin or in a setting.
///
/// One strict parser reads all of them, so that no text names different hosts to different checks. It accepts no user
/// information, percent-encoding, IPv6 zone or empty port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host<'t> {
    /// A DNS name, an IPv4 address, or an IPv6 address without brackets.
    pub name: &'t str,
    /// The port, if one is given.
    pub port: Option<u16>,
}

impl<'t> Host<'t> {
    /// Parses `NAME` or `NAME:PORT`; an IPv6 address is in brackets.
    pub fn parse(text: &'t str) -> Option<Self> {
        let (name, rest) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']')?;
                address.parse::<Ipv6Addr>().ok()?;
                (address, rest)
            }
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let is_allowed =
            |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b':');
        if name.is_empty() || !name.bytes().all(is_allowed) {
            return None;
        }
        let port = match rest.strip_prefix(':') {
            // The parser of numbers would accept a sign.
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            None if rest.is_empty() => None,
            _ => return None,
        };
        Some(Self { name, port })
    }

    /// Whether the name is `localhost` or a loopback address.
    pub fn is_loopback(&self) -> bool {
        self.name.eq_ignore_ascii_case("localhost")
            || self
                .name
                .parse::<IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        for (text, name, port) in [
            ("localhost", "localhost", None),
            ("LOCALHOST:80", "LOCALHOST", Some(80)),
            ("127.0.0.1:7717", "127.0.0.1", Some(7717)),
            ("127.9.9.9", "127.9.9.9", None),
            ("[::1]:7717", "::1", Some(7717)),
            ("[::1]", "::1", None),
        ] {
            assert_eq!(Host::parse(text), Some(Host { name, port }));
            assert!(Host { name, port }.is_loopback(), "{text}");
        }
        for text in [
            "example.org",
            "a_service:1",
            "localhost.example.org",
            "localhost.",
            "10.0.0.1",
            "127.1",
            "[::2]:1",
            "127.0.0.1.example.org",
        ] {
            let host = Host::parse(text);
            assert!(host.is_some_and(|host| !host.is_loopback()), "{text}");
        }
    }

    #[test]
    fn any_other_text_is_no_host() {
        for text in [
            "",
            " ",
            ":80",
            "localhost:",
            "localhost:+80",
            "localhost:65536",
            "localhost:80:80",
            "localhost:80@evil.example",
            "127.0.0.1:80@evil.example",
            "evil.example@localhost",
            "localhost, evil.example",
            "localhost/x",
            "localhost#evil.example",
            "localhost\\evil.example",
            "local%68ost",
            "locälhost",
            "::1",
            "[::1",
            "[::1]x",
            "[::1%25lo]",
            "[127.0.0.1]",
            "[localhost]",
        ] {
            assert_eq!(Host::parse(text), None, "{text}");
        }
    }
}
