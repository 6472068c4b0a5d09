//! Parses the URL of a Redis server.

use filrouge_store::server_url::{ServerUrl, ServerUrls};
use filrouge_types::Failure;

const TLS: &str = "rediss://";
const SOCKET: &str = "redis+unix://";

static URLS: ServerUrls = ServerUrls {
    server: "Redis",
    schemes: &["redis://", TLS, SOCKET],
    parameters: &["cacert", "cluster", "db"],
    reserved: (
        &['@', '#'],
        "an @ or # is allowed only after user and password; within them it is written %40 or %23, a / %2F, a ? %3F",
    ),
    port: 6379,
    hint: "write it as redis://user:password@host:6379/0, rediss://… for TLS, redis+unix:///path, or redis://h1:6379,h2:6379/?cluster=true",
};

/// The address of a Redis server or cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// The path of a socket.
    Socket(String),
    /// Hosts and their ports. Only a cluster has several.
    Hosts(Vec<(String, u16)>),
}

/// The parsed URL.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) tls: bool,
    pub(crate) cluster: bool,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    /// The number of the database.
    pub(crate) db: i64,
    /// The path of the file with the certificates of trusted authorities.
    pub(crate) authorities: Option<String>,
}

/// The failure for an invalid URL. `problem` may contain names of parameters, but no other part of the URL, because the
/// URL may contain a password.
pub(crate) fn invalid(problem: impl std::fmt::Display) -> Failure {
    URLS.invalid(problem)
}

impl Target {
    /// Parses `url`.
    pub(crate) fn parse(url: &str) -> Result<Self, Failure> {
        Self::from_parts(&URLS.parse(url)?)
    }

    fn from_parts(url: &ServerUrl<'_>) -> Result<Self, Failure> {
        let cluster = match url.parameter("cluster")?.as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err(invalid("cluster is neither true nor false")),
        };
        let address = address(url)?;
        let has_several_hosts = matches!(&address, Address::Hosts(hosts) if hosts.len() > 1);
        if has_several_hosts && !cluster {
            return Err(invalid(
                "it names several hosts, and does not say cluster=true",
            ));
        }
        let authorities = url.parameter("cacert")?;
        if authorities.is_some() && url.scheme != TLS {
            return Err(invalid("cacert requires rediss://"));
        }
        let db = db(url)?;
        if cluster && (db != 0 || url.scheme == SOCKET) {
            return Err(invalid(
                "a cluster is reached over hosts, and has the database 0 only",
            ));
        }
        let decode_nonempty = |text: Option<&str>, name| -> Result<Option<String>, Failure> {
            let text = text.filter(|text| !text.is_empty());
            text.map(|text| URLS.decoded(text, name)).transpose()
        };
        Ok(Self {
            address,
            tls: url.scheme == TLS,
            cluster,
            user: decode_nonempty(url.user, "user")?,
            password: decode_nonempty(url.password, "password")?,
            db,
            authorities,
        })
    }
}

fn address(url: &ServerUrl<'_>) -> Result<Address, Failure> {
    if url.scheme != SOCKET {
        return url.hosts("").map(Address::Hosts);
    }
    if !url.hosts.is_empty() || url.path.len() < 2 {
        return Err(invalid(
            "a socket is named by its path: redis+unix:///run/redis/redis.sock",
        ));
    }
    URLS.decoded(url.path, "path").map(Address::Socket)
}

fn db(url: &ServerUrl<'_>) -> Result<i64, Failure> {
    let in_query = url.parameter("db")?;
    let in_path = match url.scheme {
        SOCKET => "",
        _ => url.path.trim_start_matches('/'),
    };
    if in_query.is_some() && !in_path.is_empty() {
        return Err(invalid("db is given twice"));
    }
    match in_query.as_deref().unwrap_or(in_path) {
        "" => Ok(0),
        text => {
            let number = text.parse::<u32>().map(i64::from);
            number.map_err(|_| invalid("the database is not a number"))
        }
    }
}

/// The URL with its password as `***`, for messages and logs. If it is not a valid Redis URL, only the scheme is shown,
/// because it is unknown where the password ends.
pub fn redacted(url: &str) -> String {
    URLS.redacted(url, |parts| Target::from_parts(parts).map(drop))
}
