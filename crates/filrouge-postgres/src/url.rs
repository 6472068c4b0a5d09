//! Parses the URL of a PostgreSQL server, in libpq's form (PostgreSQL documentation, 34.1.1.2 Connection URIs).

use filrouge_store::server_url::{ServerUrl, ServerUrls};
use filrouge_types::{Failure, Result};

static URLS: ServerUrls = ServerUrls {
    server: "PostgreSQL",
    schemes: &["postgres://", "postgresql://"],
    parameters: &[
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
    ],
    reserved: (
        &['@'],
        "an @ is allowed only after user and password; within them it is written %40, a / %2F, a ? %3F",
    ),
    port: 5432,
    hint: "write it as postgres://user:password@host:5432/database?sslmode=verify-full, or for a server on a socket \
           postgres://user@/database?host=/run/postgresql",
};

/// A parsed URL.
pub(crate) struct UrlParts<'a>(ServerUrl<'a>);

/// The failure for an invalid URL. `detail` may contain names of parameters, but no other part of the URL, because the
/// URL may contain a password.
pub(crate) fn invalid(detail: impl std::fmt::Display) -> Failure {
    URLS.invalid(detail)
}

impl<'a> UrlParts<'a> {
    /// Parses `url`.
    pub(crate) fn parse(url: &'a str) -> Result<Self> {
        Ok(Self(URLS.parse(url)?))
    }

    /// The decoded value of the parameter `name`; `None` if the URL does not contain it.
    pub(crate) fn parameter(&self, name: &str) -> Result<Option<String>> {
        self.0.parameter(name)
    }

    pub(crate) fn user(&self) -> Result<Option<String>> {
        self.unique_value(self.0.user, "user")
    }

    pub(crate) fn password(&self) -> Result<Option<String>> {
        self.unique_value(self.0.password, "password")
    }

    pub(crate) fn database(&self) -> Result<Option<String>> {
        self.unique_value(self.0.path.get(1..), "dbname")
    }

    /// Returns a value that the URL may contain either before its query (`in_address`) or in the query, as the
    /// parameter `name`. Refuses a URL with both. An empty value counts as absent.
    fn unique_value(&self, in_address: Option<&str>, name: &str) -> Result<Option<String>> {
        let in_address = in_address.filter(|text| !text.is_empty());
        let in_address = in_address
            .map(|text| URLS.decoded(text, name))
            .transpose()?;
        let in_query = self.parameter(name)?.filter(|text| !text.is_empty());
        if in_address.is_some() && in_query.is_some() {
            return Err(invalid(format!("{name} is given twice")));
        }
        Ok(in_address.or(in_query))
    }

    /// The addresses of servers, in the order in which they are tried. Each is a port, and a host name, an IP address,
    /// or the folder of a socket, which begins with `/`.
    pub(crate) fn addresses(&self) -> Result<Vec<(String, u16)>> {
        addresses(&self.0)
    }
}

fn addresses(url: &ServerUrl<'_>) -> Result<Vec<(String, u16)>> {
    let ports = url.parameter("port")?.unwrap_or_default();
    let Some(hosts) = url.parameter("host")? else {
        return url.hosts(&ports);
    };
    if !url.hosts.is_empty() {
        return Err(invalid("host is given twice"));
    }
    let ports: Vec<_> = ports.split(',').collect();
    let hosts: Vec<_> = hosts.split(',').collect();
    if ports.len() > 1 && ports.len() != hosts.len() {
        return Err(invalid("there are not as many ports as hosts"));
    }
    let port = |n: usize| ports.get(n).or(ports.first()).copied().unwrap_or_default();
    let addresses = hosts.iter().enumerate().map(|(n, host)| match *host {
        "" => Err(invalid("it names no host")),
        host => Ok((host.to_owned(), URLS.parse_port(port(n))?)),
    });
    addresses.collect()
}

/// The URL with its password as `***`, for messages and logs. If [`Options::new`](crate::Options::new) cannot parse the
/// URL, returns only the scheme, because the end of the password is unknown.
pub fn redacted(url: &str) -> String {
    URLS.redacted(url, |parts| addresses(parts).map(drop))
}
