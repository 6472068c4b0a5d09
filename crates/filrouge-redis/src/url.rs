//! The URL of a Redis, taken apart.

use filrouge_types::{ErrorCode, Failure};

const SCHEMES: [(&str, Scheme); 3] = [
    ("redis://", Scheme::Plain),
    ("rediss://", Scheme::Tls),
    ("redis+unix://", Scheme::Socket),
];
const PARAMETERS: [&str; 3] = ["cacert", "cluster", "db"];
/// The port of a host without one.
const PORT: u16 = 6379;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Plain,
    Tls,
    Socket,
}

/// Where a Redis is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// The path of a socket.
    Socket(String),
    /// Hosts and ports; several of a cluster.
    Hosts(Vec<(String, u16)>),
}

/// What a URL says.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) place: Place,
    pub(crate) tls: bool,
    pub(crate) cluster: bool,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) db: i64,
    /// The path of the certificates of authorities that are trusted.
    pub(crate) authorities: Option<String>,
}

/// A failure about a URL; `what` holds nothing of the URL but names of parameters: it may hold a password.
pub(crate) fn invalid(what: impl std::fmt::Display) -> Failure {
    Failure::new(ErrorCode::Invalid, format!("the Redis URL: {what}")).with_hint(
        "write it as redis://user:password@host:6379/0, rediss://… for TLS, redis+unix:///path, or redis://h1:6379,h2:6379/?cluster=true",
    )
}

/// A URL in pieces, percent-encoded as they were given.
struct Parts<'a> {
    written: &'static str,
    scheme: Scheme,
    user: Option<&'a str>,
    password: Option<&'a str>,
    hosts: &'a str,
    /// With the slash that it begins with.
    path: &'a str,
    query: Vec<(&'a str, &'a str)>,
}

impl<'a> Parts<'a> {
    /// Takes `url` apart. It is strict about `@`: one that ends user and password, before any `/` and `?`. A password with
    /// such a character in it, not percent-encoded, could pass for a host and be shown.
    fn of(url: &'a str) -> Result<Self, Failure> {
        let (written, scheme, rest) = SCHEMES
            .iter()
            .find_map(|(written, scheme)| Some((*written, *scheme, url.strip_prefix(written)?)))
            .ok_or_else(|| invalid("it begins with none of redis://, rediss://, redis+unix://"))?;
        let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = before.split_at(before.find('/').unwrap_or(before.len()));
        let (credentials, hosts) = match authority.split_once('@') {
            Some((credentials, hosts)) => (Some(credentials), hosts),
            None => (None, authority),
        };
        if [hosts, path, query].iter().any(|piece| piece.contains('@')) || rest.contains('#') {
            return Err(invalid(
                "an @ or # stands elsewhere than behind user and password: there it is written %40 or %23, a / %2F, a ? %3F",
            ));
        }
        let (user, password) = match credentials.map(|c| c.split_once(':').ok_or(c)) {
            None => (None, None),
            Some(Ok((user, password))) => (Some(user), Some(password)),
            Some(Err(user)) => (Some(user), None),
        };
        Ok(Self {
            written,
            scheme,
            user,
            password,
            hosts,
            path,
            query: parameters(query)?,
        })
    }

    fn parameter(&self, name: &str) -> Result<Option<String>, Failure> {
        let found = self.query.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| decoded(value, name)).transpose()
    }

    fn target(&self) -> Result<Target, Failure> {
        let cluster = match self.parameter("cluster")?.as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err(invalid("cluster is neither true nor false")),
        };
        let place = self.place()?;
        let several = matches!(&place, Place::Hosts(hosts) if hosts.len() > 1);
        if several && !cluster {
            return Err(invalid(
                "it names several hosts, and does not say cluster=true",
            ));
        }
        let authorities = self.parameter("cacert")?;
        if authorities.is_some() && self.scheme != Scheme::Tls {
            return Err(invalid("cacert takes rediss://"));
        }
        let db = self.db()?;
        if cluster && (db != 0 || self.scheme == Scheme::Socket) {
            return Err(invalid(
                "a cluster is reached over hosts, and has the database 0 only",
            ));
        }
        let some = |text: Option<&str>, name| -> Result<Option<String>, Failure> {
            let text = text.filter(|text| !text.is_empty());
            text.map(|text| decoded(text, name)).transpose()
        };
        Ok(Target {
            place,
            tls: self.scheme == Scheme::Tls,
            cluster,
            user: some(self.user, "user")?,
            password: some(self.password, "password")?,
            db,
            authorities,
        })
    }

    fn place(&self) -> Result<Place, Failure> {
        if self.scheme != Scheme::Socket {
            let hosts = self.hosts.split(',').map(host).collect::<Result<_, _>>()?;
            return Ok(Place::Hosts(hosts));
        }
        if !self.hosts.is_empty() || self.path.len() < 2 {
            return Err(invalid(
                "a socket is named by its path: redis+unix:///run/redis/redis.sock",
            ));
        }
        Ok(Place::Socket(decoded(self.path, "path")?))
    }

    fn db(&self) -> Result<i64, Failure> {
        let in_query = self.parameter("db")?;
        let in_path = match self.scheme {
            Scheme::Socket => None,
            _ => Some(self.path.trim_start_matches('/').to_owned()).filter(|text| !text.is_empty()),
        };
        if in_query.is_some() && in_path.is_some() {
            return Err(invalid("db is given twice"));
        }
        let Some(text) = in_query.or(in_path) else {
            return Ok(0);
        };
        let number = text.parse::<u32>().map(i64::from);
        number.map_err(|_| invalid("the database is no number"))
    }

    fn shown(&self) -> String {
        let mut text = self.written.to_owned();
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
            text.push_str(&format!("{name}={value}"));
        }
        text
    }
}

impl Target {
    /// What `url` says.
    pub(crate) fn of(url: &str) -> Result<Self, Failure> {
        Parts::of(url)?.target()
    }
}

/// The URL with its password as `***`, for people and logs. Of what is no URL of a Redis nothing but the scheme is shown:
/// nobody knows where its password ends.
#[must_use]
pub fn redacted(url: &str) -> String {
    let parts = Parts::of(url).and_then(|parts| parts.target().map(|_| parts));
    if let Ok(parts) = parts {
        return parts.shown();
    }
    let mut schemes = SCHEMES.iter().map(|(written, _)| *written);
    let scheme = schemes.find(|scheme| url.starts_with(scheme));
    format!("{}***", scheme.unwrap_or_default())
}

fn parameters(query: &str) -> Result<Vec<(&str, &str)>, Failure> {
    let mut all: Vec<(&str, &str)> = Vec::new();
    for piece in query.split('&').filter(|piece| !piece.is_empty()) {
        let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
        if !PARAMETERS.contains(&name) {
            // What is no known name may be a piece of a password.
            let known = PARAMETERS.join(", ");
            return Err(invalid("a parameter is unknown").with_hint(format!("known: {known}")));
        }
        if all.iter().any(|(known, _)| *known == name) {
            return Err(invalid(format!("{name} is given twice")));
        }
        all.push((name, value));
    }
    Ok(all)
}

/// `host`, `host:port`, `[IPv6]` or `[IPv6]:port`.
fn host(text: &str) -> Result<(String, u16), Failure> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, after) = rest
                .split_once(']')
                .ok_or_else(|| invalid("a [ of the host has no ]"))?;
            match after.strip_prefix(':') {
                Some(port) => (name, Some(port)),
                None if after.is_empty() => (name, None),
                None => return Err(invalid("behind the host's ] stands something else")),
            }
        }
        None => match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    if name.is_empty() {
        return Err(invalid("it names no host"));
    }
    let port = match port {
        None => PORT,
        Some(port) => (port.parse().ok().filter(|port| *port > 0))
            .ok_or_else(|| invalid("port is no number from 1 to 65535"))?,
    };
    Ok((decoded(name, "host")?, port))
}

/// `text` without its percent-encoding.
fn decoded(text: &str, name: &str) -> Result<String, Failure> {
    let wrong = || invalid(format!("{name} is not percent-encoded UTF-8"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut pieces = text.split('%');
    bytes.extend_from_slice(pieces.next().unwrap_or_default().as_bytes());
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2).ok_or_else(wrong)?;
        let hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let byte = u8::from_str_radix(digits, 16).ok().filter(|_| hexadecimal);
        bytes.push(byte.filter(|byte| *byte != 0).ok_or_else(wrong)?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}
