//! Translates a store's URL into the PostgreSQL servers that it names, and the settings for connections to them.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use filrouge_types::Failure;
use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, Host, SslMode};

use crate::tls::Tls;
use crate::url::{UrlParts, invalid};

/// The time limit for connecting to a server, unless the URL's parameter `connect_timeout` sets another.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection is idle before the operating system probes the peer.
const KEEPALIVES_IDLE: Duration = Duration::from_secs(30);
/// The interval and the number of probes. A host that has disappeared is detected 30 s after the first probe.
const KEEPALIVES_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVES_RETRIES: u32 = 3;
/// How long sent data may remain unacknowledged before the operating system closes the connection.
const USER_TIMEOUT: Duration = Duration::from_secs(30);

/// The servers that a URL names, and how to connect to them.
#[derive(Clone)]
pub(crate) struct Target {
    /// The servers, each with one host, in the order in which they are tried.
    pub(crate) servers: Vec<Config>,
    pub(crate) tls: Tls,
    /// The settings of the servers without a host.
    settings: Config,
}

/// Shows only the hosts, never a password.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.servers.iter().map(display_name))
            .finish()
    }
}

impl Target {
    /// Parses `url`, and reads the files of certificates that it names.
    ///
    /// # Errors
    /// `invalid` for a malformed URL, a parameter with an invalid value, or a file that cannot be read.
    pub(crate) fn parse(url: &str) -> Result<Self, Failure> {
        let parts = UrlParts::parse(url)?;
        let tls = Tls::from_parts(&parts)?;
        let mut config = Config::new();
        // Unlike libpq, filrouge has no default for the user, such as the name of the system's account.
        config.user(parts.user()?.ok_or_else(|| invalid("it names no user"))?);
        if let Some(password) = parts.password()? {
            config.password(password);
        }
        if let Some(database) = parts.database()? {
            config.dbname(database);
        }
        let name = parts.parameter("application_name")?;
        config.application_name(name.unwrap_or_else(|| "filrouge".to_owned()));
        if let Some(options) = parts.parameter("options")? {
            config.options(options);
        }
        check_session_attributes(&parts)?;
        set_channel_binding(&mut config, &parts)?;
        set_timeouts(&mut config, &parts)?;
        let addresses = parts.addresses()?;
        let servers = addresses.into_iter();
        let servers = servers.map(|(host, port)| with_address(&config, &tls, &host, port));
        Ok(Self {
            servers: servers.collect(),
            tls,
            settings: config,
        })
    }

    /// Returns a target with the same settings, for another server.
    pub(crate) fn for_server(&self, host: &str, port: u16) -> Self {
        Self {
            servers: vec![with_address(&self.settings, &self.tls, host, port)],
            ..self.clone()
        }
    }

    /// Sets the password, unless the URL contains one.
    pub(crate) fn set_password(&mut self, password: &str) {
        for config in self.servers.iter_mut().chain([&mut self.settings]) {
            if config.get_password().is_none() {
                config.password(password);
            }
        }
    }
}

/// Returns the settings of a server, with its host and port.
fn with_address(settings: &Config, tls: &Tls, host: &str, port: u16) -> Config {
    let mut config = settings.clone();
    // As in libpq, sockets use no TLS.
    let mode = if host.starts_with('/') {
        SslMode::Disable
    } else {
        tls.ssl_mode()
    };
    config.host(host).port(port).ssl_mode(mode);
    config
}

/// Returns the host and port of a server, for messages.
pub(crate) fn display_name(server: &Config) -> String {
    let port = server.get_ports().first().copied().unwrap_or_default();
    match server.get_hosts().first() {
        Some(Host::Tcp(host)) if host.contains(':') => format!("[{host}]:{port}"),
        Some(Host::Tcp(host)) => format!("{host}:{port}"),
        Some(Host::Unix(folder)) => format!("{}/.s.PGSQL.{port}", folder.display()),
        None => String::new(),
    }
}

/// Whether data sent to `server` crosses a network.
pub(crate) fn is_remote(server: &Config) -> bool {
    server.get_hosts().iter().any(|host| match host {
        Host::Tcp(host) => {
            host != "localhost" && !host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        Host::Unix(_) => false,
    })
}

/// Checks the parameter `target_session_attrs`. Values that could lead to a server without writes are refused.
fn check_session_attributes(parts: &UrlParts<'_>) -> Result<(), Failure> {
    match parts.parameter("target_session_attrs")?.as_deref() {
        None | Some("any" | "read-write" | "primary") => Ok(()),
        Some(_) => Err(invalid(
            "target_session_attrs must be any, read-write or primary: a store needs a server that accepts writes",
        )),
    }
}

fn set_channel_binding(config: &mut Config, parts: &UrlParts<'_>) -> Result<(), Failure> {
    let binding = match parts.parameter("channel_binding")?.as_deref() {
        None | Some("prefer") => ChannelBinding::Prefer,
        Some("disable") => ChannelBinding::Disable,
        Some("require") => ChannelBinding::Require,
        Some(_) => {
            return Err(invalid(
                "channel_binding is none of disable, prefer, require",
            ));
        }
    };
    config.channel_binding(binding);
    Ok(())
}

fn set_timeouts(config: &mut Config, parts: &UrlParts<'_>) -> Result<(), Failure> {
    let seconds = |name| Ok(positive_parameter(parts, name)?.map(Duration::from_secs));
    config.connect_timeout(seconds("connect_timeout")?.unwrap_or(CONNECT_TIMEOUT));
    match parts.parameter("keepalives")?.as_deref() {
        None | Some("1") => config.keepalives(true),
        Some("0") => config.keepalives(false),
        Some(_) => return Err(invalid("keepalives is neither 0 nor 1")),
    };
    config.keepalives_idle(seconds("keepalives_idle")?.unwrap_or(KEEPALIVES_IDLE));
    let interval = seconds("keepalives_interval")?;
    config.keepalives_interval(interval.unwrap_or(KEEPALIVES_INTERVAL));
    let retries = positive_parameter(parts, "keepalives_retries")?;
    config.keepalives_retries(retries.unwrap_or(KEEPALIVES_RETRIES));
    let milliseconds = positive_parameter(parts, "tcp_user_timeout")?;
    config.tcp_user_timeout(milliseconds.map_or(USER_TIMEOUT, Duration::from_millis));
    Ok(())
}

/// The URL's parameter `name` as a number from 1 to 2³¹ − 1, the limit of libpq; `None` if the URL does not contain it.
fn positive_parameter<T>(parts: &UrlParts<'_>, name: &str) -> Result<Option<T>, Failure>
where
    T: From<u32>,
{
    let Some(text) = parts.parameter(name)? else {
        return Ok(None);
    };
    let number = text.parse::<u32>().ok();
    let number = number.filter(|number| (1..=i32::MAX.unsigned_abs()).contains(number));
    let number =
        number.ok_or_else(|| invalid(format!("{name} is no whole number of 1 or more")))?;
    Ok(Some(number.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_remote_unless_it_is_loopback_or_a_socket() {
        let remote = |host: &str| {
            let target = Target::parse(&format!("postgres://u@{host}/d")).unwrap();
            target.servers.iter().map(is_remote).collect::<Vec<_>>()
        };
        assert_eq!(
            remote("localhost,127.0.0.1,127.9.9.9,[::1],%2Frun"),
            [false; 5]
        );
        assert_eq!(
            remote("db.example,10.0.0.1,[fe80::1],localhost.example"),
            [true; 4]
        );
    }
}
