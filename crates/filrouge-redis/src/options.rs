//! The options of a hot store on Redis.

use std::fmt;
use std::time::Duration;

use filrouge_store::hot::HotBounds;

/// The connection settings and the limits of a hot store on Redis.
#[derive(Clone)]
pub struct Options {
    /// `redis://[user:password@]host:port[/db]`, `rediss://…` for TLS (with `?cacert=/path` for a private certificate
    /// authority), `redis+unix://[user:password@]/path/of/socket[?db=1]`, `redis://h1:p1,h2:p2/?cluster=true`. The
    /// default port is 6379.
    pub url: String,
    /// The password. It overrides a password in the URL.
    pub password: Option<String>,
    /// The prefix of key names: at most 64 letters, digits and `_-.:/`. Stores that share a Redis need different
    /// prefixes.
    pub prefix: String,
    /// The limits for what is stored for each session.
    pub bounds: HotBounds,
    /// The time limit for a request, including connecting.
    pub timeout: Duration,
}

impl Options {
    /// The default options for the server at `url`: the prefix `filrouge`, [`HotBounds::default`], and a time limit of
    /// 250 ms.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            password: None,
            prefix: "filrouge".to_owned(),
            bounds: HotBounds::default(),
            timeout: Duration::from_millis(250),
        }
    }
}

impl fmt::Debug for Options {
    /// Hides passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("url", &crate::redacted(&self.url))
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("prefix", &self.prefix)
            .field("bounds", &self.bounds)
            .field("timeout", &self.timeout)
            .finish()
    }
}
