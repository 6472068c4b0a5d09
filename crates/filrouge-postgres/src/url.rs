//! The URL of a server, in libpq's form (PostgreSQL documentation, 34.1.1.2 Connection URIs), taken apart.

use filrouge_types::{ErrorCode, Failure};

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// The parameters that a URL may have.
const PARAMETERS: [&str; 19] = [
    "application_name",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "host",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "options",
    "password",
    "port",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
];

/// The port of a host without one.
const PORT: u16 = 5432;

/// A URL in pieces, percent-encoded as they were given.
pub(crate) struct Parts<'a> {
    scheme: &'static str,
    user: Option<&'a str>,
    password: Option<&'a str>,
    /// Hosts and ports as they stand before the path.
    hosts: &'a str,
    path: Option<&'a str>,
    query: Vec<(&'a str, &'a str)>,
}

/// Where one server is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// A name, an address, or the folder of a socket, which begins with `/`.
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// A failure about a URL; `what` holds nothing of the URL but names of parameters: it may hold a password.
pub(crate) fn invalid(what: impl std::fmt::Display) -> Failure {
    Failure::new(ErrorCode::Invalid, format!("the PostgreSQL URL: {what}"))
        .with_hint("write it as postgres://user:password@host:5432/database?sslmode=verify-full")
}

impl<'a> Parts<'a> {
    /// Takes `url` apart.
    ///
    /// It is strict about `@`: one that ends user and password, before any `/` and `?`. A password with such a
    /// character in it, not percent-encoded, could pass for a host or a database and be shown.
    pub(crate) fn of(url: &'a str) -> Result<Self, Failure> {
        let (scheme, rest) = SCHEMES
            .iter()
            .find_map(|scheme| Some((*scheme, url.strip_prefix(scheme)?)))
            .ok_or_else(|| invalid("it begins neither with postgres:// nor with postgresql://"))?;
        let (before, query) = match rest.split_once('?') {
            Some((before, query)) => (before, Some(query)),
            None => (rest, None),
        };
        let (authority, path) = match before.split_once('/') {
            Some((authority, path)) => (authority, Some(path)),
            None => (before, None),
        };
        let (credentials, hosts) = match authority.split_once('@') {
            Some((credentials, hosts)) => (Some(credentials), hosts),
            None => (None, authority),
        };
        let after = [Some(hosts), path, query];
        if after.into_iter().flatten().any(|piece| piece.contains('@')) {
            return Err(invalid(
                "an @ stands elsewhere than behind user and password: there it is written %40, a / %2F, a ? %3F",
            ));
        }
        let (user, password) = match credentials.map(|c| c.split_once(':').ok_or(c)) {
            None => (None, None),
            Some(Ok((user, password))) => (Some(user), Some(password)),
            Some(Err(user)) => (Some(user), None),
        };
        let parts = Self {
            scheme,
            user,
            password,
            hosts,
            path,
            query: parameters(query.unwrap_or_default())?,
        };
        // What is none must not be taken for one that can be shown.
        parts.places()?;
        Ok(parts)
    }

    /// The parameter `name`, decoded.
    pub(crate) fn parameter(&self, name: &str) -> Result<Option<String>, Failure> {
        let found = self.query.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| decoded(value, name)).transpose()
    }

    pub(crate) fn user(&self) -> Result<Option<String>, Failure> {
        self.once(self.user, "user")
    }

    pub(crate) fn password(&self) -> Result<Option<String>, Failure> {
        self.once(self.password, "password")
    }

    pub(crate) fn database(&self) -> Result<Option<String>, Failure> {
        self.once(self.path, "dbname")
    }

    /// What may stand before the query or in it; empty is as if it were not there.
    fn once(&self, before: Option<&str>, name: &str) -> Result<Option<String>, Failure> {
        let before = before.filter(|text| !text.is_empty());
        let before = before.map(|text| decoded(text, name)).transpose()?;
        let after = self.parameter(name)?.filter(|text| !text.is_empty());
        if before.is_some() && after.is_some() {
            return Err(invalid(format!("{name} is given twice")));
        }
        Ok(before.or(after))
    }

    /// Where the servers are, in the order they are tried.
    pub(crate) fn places(&self) -> Result<Vec<Place>, Failure> {
        let ports = self.parameter("port")?;
        let Some(hosts) = self.parameter("host")? else {
            return self
                .hosts
                .split(',')
                .map(|text| place(text, &ports))
                .collect();
        };
        if !self.hosts.is_empty() {
            return Err(invalid("host is given twice"));
        }
        let ports: Vec<_> = ports.iter().flat_map(|ports| ports.split(',')).collect();
        let hosts: Vec<_> = hosts.split(',').collect();
        if ports.len() > 1 && ports.len() != hosts.len() {
            return Err(invalid("there are not as many ports as hosts"));
        }
        let port = |n: usize| ports.get(n).or(ports.first()).copied().unwrap_or_default();
        let places = hosts.iter().enumerate().map(|(n, host)| {
            Ok(Place {
                host: named(host)?,
                port: number(port(n))?,
            })
        });
        places.collect()
    }

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
        if let Some(path) = self.path {
            text.push('/');
            text.push_str(path);
        }
        for (n, (name, value)) in self.query.iter().enumerate() {
            text.push(if n == 0 { '?' } else { '&' });
            let value = if *name == "password" { "***" } else { value };
            text.push_str(&format!("{name}={value}"));
        }
        text
    }
}

/// The URL with its password as `***`, for people and logs. Of what is no URL that [`Options::new`](crate::Options::new)
/// takes apart, nothing but the scheme is shown: nobody knows where its password ends.
#[must_use]
pub fn redacted(url: &str) -> String {
    if let Ok(parts) = Parts::of(url) {
        return parts.shown();
    }
    let scheme = SCHEMES.iter().find(|scheme| url.starts_with(**scheme));
    format!("{}***", scheme.copied().unwrap_or_default())
}

fn parameters(query: &str) -> Result<Vec<(&str, &str)>, Failure> {
    let mut all: Vec<(&str, &str)> = Vec::new();
    for piece in query.split('&').filter(|piece| !piece.is_empty()) {
        let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
        if !PARAMETERS.contains(&name) {
            // What does not look like a name may be a piece of a password.
            let looks = name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            return Err(invalid(if looks && piece.contains('=') {
                format!("the parameter {name} is unknown")
            } else {
                "a parameter is unknown".to_owned()
            })
            .with_hint(format!("known: {}", PARAMETERS.join(", "))));
        }
        if all.iter().any(|(known, _)| *known == name) {
            return Err(invalid(format!("{name} is given twice")));
        }
        all.push((name, value));
    }
    Ok(all)
}

/// `host`, `host:port`, `[IPv6]` or `[IPv6]:port`.
fn place(text: &str, default: &Option<String>) -> Result<Place, Failure> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest
                .split_once(']')
                .ok_or_else(|| invalid("a [ of the host has no ]"))?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(invalid("behind the host's ] stands something else")),
            }
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    Ok(Place {
        host: named(&decoded(host, "host")?)?,
        port: number(port.or(default.as_deref()).unwrap_or_default())?,
    })
}

fn named(host: &str) -> Result<String, Failure> {
    if host.is_empty() {
        return Err(invalid("it names no host")
            .with_hint("a server on a socket is named by its folder: postgres://user@/database?host=/run/postgresql"));
    }
    Ok(host.to_owned())
}

fn number(port: &str) -> Result<u16, Failure> {
    if port.is_empty() {
        return Ok(PORT);
    }
    let port = port.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| invalid("port is no number from 1 to 65535"))
}

/// `text` without its percent-encoding.
fn decoded(text: &str, name: &str) -> Result<String, Failure> {
    let wrong = || invalid(format!("{name} is not percent-encoded UTF-8"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = rest
            .get(..2)
            .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            .ok_or_else(wrong)?;
        let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        rest = &rest[2..];
    }
    if bytes.contains(&0) {
        return Err(wrong());
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}
