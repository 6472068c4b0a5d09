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
    /// Characters that must be percent-encoded outside user and password, and the detail of the failure if one is not.
    pub reserved: (&'static [char], &'static str),
    /// The default port, for a host without a port in the URL.
    pub port: u16,
    /// The hint of every failure: how to write such a URL.
    pub hint: &'static str,
}

/// The pieces of a URL, still percent-encoded. It has no `Debug`, because a piece is the password.
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
    /// A failure about a URL. `detail` may quote only the parameter names of the URL.
    pub fn invalid(&self, detail: impl std::fmt::Display) -> Failure {
        let detail = format!("the {} URL: {detail}", self.server);
        Failure::new(ErrorCode::Invalid, detail).with_hint(self.hint)
    }

    /// Splits `url` into its pieces.
    ///
    /// The `@` after user and password must precede every `/` and `?`, so these characters must be percent-encoded in a
    /// password. Otherwise the rest of the password would be parsed as a path or a query, and be shown.
    ///
    /// # Errors
    /// `invalid` for another scheme, an unknown or repeated parameter, or a character where it is not allowed.
    pub fn parse<'a>(&'static self, url: &'a str) -> Result<ServerUrl<'a>, Failure> {
        let (scheme, after_scheme) = self
            .schemes
            .iter()
            .find_map(|scheme| Some((*scheme, url.strip_prefix(scheme)?)))
            .ok_or_else(|| {
                self.invalid(format!(
                    "it begins neither with {}",
                    self.schemes.join(" nor with ")
                ))
            })?;
        let (before_query, query) = after_scheme.split_once('?').unwrap_or((after_scheme, ""));
        let (authority, path) =
            before_query.split_at(before_query.find('/').unwrap_or(before_query.len()));
        let (credentials, hosts) = match authority.split_once('@') {
            Some((credentials, hosts)) => (Some(credentials), hosts),
            None => (None, authority),
        };
        let (reserved, refusal) = self.reserved;
        if [hosts, path, query]
            .iter()
            .any(|piece| piece.contains(reserved))
        {
            return Err(self.invalid(refusal));
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
            query: self.parse_query(query)?,
        })
    }

    /// Splits the query into its parameters, still percent-encoded; refuses unknown and repeated ones.
    fn parse_query<'a>(&self, query: &'a str) -> Result<Vec<(&'a str, &'a str)>, Failure> {
        let mut parameters: Vec<(&str, &str)> = Vec::new();
        for piece in query.split('&').filter(|piece| !piece.is_empty()) {
            let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
            if !self.parameters.contains(&name) {
                // Text that does not look like a name may be a piece of a password.
                let looks_like_name = name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
                return Err(self
                    .invalid(match looks_like_name && piece.contains('=') {
                        true => format!("the parameter {name} is unknown"),
                        false => "a parameter is unknown".to_owned(),
                    })
                    .with_hint(format!("known: {}", self.parameters.join(", "))));
            }
            if parameters.iter().any(|(known, _)| *known == name) {
                return Err(self.invalid(format!("{name} is given twice")));
            }
            parameters.push((name, value));
        }
        Ok(parameters)
    }

    /// The URL for people and logs, with its password as `***`. `check` is the backend's check of a parsed URL. If the
    /// text cannot be parsed or fails this check, the end of the password is unknown, and the result is the scheme and
    /// `***`.
    pub fn redacted(
        &'static self,
        url: &str,
        check: impl FnOnce(&ServerUrl<'_>) -> Result<(), Failure>,
    ) -> String {
        match self.parse(url) {
            Ok(parts) if check(&parts).is_ok() => parts.without_password(),
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
        let parameter = self.query.iter().find(|(known, _)| *known == name);
        let decoded = |(_, value): &(&str, &str)| self.syntax.decoded(value, name);
        parameter.map(decoded).transpose()
    }

    /// The decoded hosts, each with its port. A host without a port gets the port `default_port`, or if this is empty,
    /// the default port of the server's kind. Each is written `host`, `host:port`, `[IPv6]` or `[IPv6]:port`.
    ///
    /// # Errors
    /// `invalid` for an empty host or any other notation.
    pub fn hosts(&self, default_port: &str) -> Result<Vec<(String, u16)>, Failure> {
        self.hosts
            .split(',')
            .map(|host| self.parse_host(host, default_port))
            .collect()
    }

    fn parse_host(&self, text: &str, default_port: &str) -> Result<(String, u16), Failure> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let bracketed = rest.split_once(']');
                let (host, after) =
                    bracketed.ok_or_else(|| self.syntax.invalid("a [ of the host has no ]"))?;
                match after.strip_prefix(':') {
                    Some(port) => (host, Some(port)),
                    None if after.is_empty() => (host, None),
                    None => {
                        let detail = "only a port may follow the host's ]";
                        return Err(self.syntax.invalid(detail));
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
        let port = self.syntax.parse_port(port.unwrap_or(default_port))?;
        Ok((self.syntax.decoded(host, "host")?, port))
    }

    /// The URL with `***` for each password, before the hosts and in the query.
    fn without_password(&self) -> String {
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
