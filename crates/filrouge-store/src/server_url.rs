//! Parses the URL of a server that a backend connects to: `scheme://user:password@host:port,host/path?name=value`.
//!
//! A URL may contain a password, so failures quote only its parameter names.

use filrouge_types::{ErrorCode, Failure};
use percent_encoding::percent_decode_str;

/// The syntax of the URLs of one kind of server.
#[derive(Debug)]
pub struct ServerUrls {
    /// The server's name in failures.
    pub server: &'static str,
    /// The schemes that a URL may begin with, including `://`.
    pub schemes: &'static [&'static str],
    /// The parameters that a URL may have.
    pub parameters: &'static [&'static str],
    /// Characters that must be percent-encoded outside user and password, and the failure text that says how to write
    /// them.
    pub reserved: (&'static [char], &'static str),
    /// The port of a host for which the URL names none.
    pub port: u16,
    /// The hint of every failure: how to write such a URL.
    pub hint: &'static str,
}

/// The pieces of a URL, still percent-encoded.
#[derive(Debug, Clone)]
pub struct ServerUrl<'a> {
    syntax: &'static ServerUrls,
    /// The scheme, including `://`.
    pub scheme: &'static str,
    /// The user before the `@`.
    pub user: Option<&'a str>,
    /// The password before the `@`.
    pub password: Option<&'a str>,
    /// The hosts and ports before the path, as one text.
    pub hosts: &'a str,
    /// The path with its leading slash; empty if the URL has none.
    pub path: &'a str,
    query: Vec<(&'a str, &'a str)>,
}

impl ServerUrls {
    /// A failure about a URL. `what` may quote only the parameter names of the URL.
    pub fn invalid(&self, what: impl std::fmt::Display) -> Failure {
        let what = format!("the {} URL: {what}", self.server);
        Failure::new(ErrorCode::Invalid, what).with_hint(self.hint)
    }

    /// Splits `url` into its pieces.
    ///
    /// The `@` after user and password must precede every `/` and `?`, so these characters must be percent-encoded in a
    /// password. Otherwise the rest of the password would be parsed as a path or a query, and be shown.
    ///
    /// # Errors
    /// `invalid` for another scheme, an unknown or repeated parameter, or a character where it is not allowed.
    pub fn parse<'a>(&'static self, url: &'a str) -> Result<ServerUrl<'a>, Failure> {
        let (scheme, rest) = self
            .schemes
            .iter()
            .find_map(|scheme| Some((*scheme, url.strip_prefix(scheme)?)))
            .ok_or_else(|| {
                self.invalid(format!(
                    "it begins neither with {}",
                    self.schemes.join(" nor with ")
                ))
            })?;
        let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = before.split_at(before.find('/').unwrap_or(before.len()));
        let (credentials, hosts) = match authority.split_once('@') {
            Some((credentials, hosts)) => (Some(credentials), hosts),
            None => (None, authority),
        };
        let (odd, instead) = self.reserved;
        if [hosts, path, query].iter().any(|piece| piece.contains(odd)) {
            return Err(self.invalid(instead));
        }
        let (user, password) = match credentials.map(|c| c.split_once(':').ok_or(c)) {
            None => (None, None),
            Some(Ok((user, password))) => (Some(user), Some(password)),
            Some(Err(user)) => (Some(user), None),
        };
        Ok(ServerUrl {
            syntax: self,
            scheme,
            user,
            password,
            hosts,
            path,
            query: self.query(query)?,
        })
    }

    /// Splits the query into its parameters, still percent-encoded; refuses unknown and repeated ones.
    fn query<'a>(&self, query: &'a str) -> Result<Vec<(&'a str, &'a str)>, Failure> {
        let mut all: Vec<(&str, &str)> = Vec::new();
        for piece in query.split('&').filter(|piece| !piece.is_empty()) {
            let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
            if !self.parameters.contains(&name) {
                // Text that does not look like a name may be a piece of a password.
                let looks = name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
                return Err(self
                    .invalid(match looks && piece.contains('=') {
                        true => format!("the parameter {name} is unknown"),
                        false => "a parameter is unknown".to_owned(),
                    })
                    .with_hint(format!("known: {}", self.parameters.join(", "))));
            }
            if all.iter().any(|(known, _)| *known == name) {
                return Err(self.invalid(format!("{name} is given twice")));
            }
            all.push((name, value));
        }
        Ok(all)
    }

    /// The URL for people and logs, with its password as `***`. `sound` is the backend's check of a parsed URL. For a
    /// text that cannot be parsed or fails this check, the result is only the scheme and `***`, because it is unknown
    /// where the password ends.
    pub fn redacted(
        &'static self,
        url: &str,
        sound: impl FnOnce(&ServerUrl<'_>) -> Result<(), Failure>,
    ) -> String {
        match self.parse(url) {
            Ok(parts) if sound(&parts).is_ok() => parts.shown(),
            _ => {
                let scheme = self.schemes.iter().find(|scheme| url.starts_with(**scheme));
                format!("{}***", scheme.copied().unwrap_or_default())
            }
        }
    }

    /// Percent-decodes `text`, which the failure calls `name`.
    ///
    /// # Errors
    /// `invalid` unless it is percent-encoded UTF-8 without NUL.
    pub fn decoded(&self, text: &str, name: &str) -> Result<String, Failure> {
        let is_digits = |piece: &str| {
            let digits = piece.as_bytes().get(..2);
            digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
        };
        let decoded = percent_decode_str(text).decode_utf8().ok();
        decoded
            .filter(|text| !text.contains('\0'))
            .filter(|_| text.split('%').skip(1).all(is_digits))
            .map(Into::into)
            .ok_or_else(|| self.invalid(format!("{name} is not percent-encoded UTF-8")))
    }

    /// Parses a port; an empty text means the default port.
    ///
    /// # Errors
    /// `invalid` unless it is a number from 1 to 65535.
    pub fn parse_port(&self, port: &str) -> Result<u16, Failure> {
        let port = match port {
            "" => Some(self.port),
            port => port.parse().ok().filter(|port| *port > 0),
        };
        port.ok_or_else(|| self.invalid("port is no number from 1 to 65535"))
    }
}

impl ServerUrl<'_> {
    /// The decoded value of the parameter `name`; `None` if the URL lacks it.
    ///
    /// # Errors
    /// As [`ServerUrls::decoded`].
    pub fn parameter(&self, name: &str) -> Result<Option<String>, Failure> {
        let found = self.query.iter().find(|(known, _)| *known == name);
        let decoded = |(_, value): &(&str, &str)| self.syntax.decoded(value, name);
        found.map(decoded).transpose()
    }

    /// The decoded hosts, each with its port. A host without a port gets the port `usual`, or if `usual` is empty, the
    /// default port of such servers. Each is written `host`, `host:port`, `[IPv6]` or `[IPv6]:port`.
    ///
    /// # Errors
    /// `invalid` for an empty host or any other notation.
    pub fn hosts(&self, usual: &str) -> Result<Vec<(String, u16)>, Failure> {
        self.hosts
            .split(',')
            .map(|one| self.host(one, usual))
            .collect()
    }

    fn host(&self, text: &str, usual: &str) -> Result<(String, u16), Failure> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let closed = rest.split_once(']');
                let (host, after) =
                    closed.ok_or_else(|| self.syntax.invalid("a [ of the host has no ]"))?;
                match after.strip_prefix(':') {
                    Some(port) => (host, Some(port)),
                    None if after.is_empty() => (host, None),
                    None => {
                        let what = "only a port may follow the host's ]";
                        return Err(self.syntax.invalid(what));
                    }
                }
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        if host.is_empty() {
            return Err(self.syntax.invalid("it names no host"));
        }
        let port = self.syntax.parse_port(port.unwrap_or(usual))?;
        Ok((self.syntax.decoded(host, "host")?, port))
    }

    /// The URL with `***` for each password, before the hosts and in the query.
    fn shown(&self) -> String {
        let mut text = self.scheme.to_owned();
        if let Some(user) = self.user {
            text.push_str(user);
            if self.password.is_some() {
                text.push_str(":***");
            }
            text.push('@');
        }
        text.push_str(self.hosts);
        text.push_str(self.path);
        for (n, (name, value)) in self.query.iter().enumerate() {
            text.push(if n == 0 { '?' } else { '&' });
            let value = if *name == "password" { "***" } else { value };
            text.push_str(&format!("{name}={value}"));
        }
        text
    }
}
