//! What a hot store on Redis is opened with.

use std::fmt;
use std::time::Duration;

use filrouge_store::hot::HotBounds;

/// How to reach Redis, and how to use it.
#[derive(Clone)]
pub struct Options {
    /// `redis://[user:password@]host:port[/db]`, `rediss://…` for TLS (with `?cacert=/path` for an authority of one's own),
    /// `redis+unix://[user:password@]/path/of/socket[?db=1]`, `redis://h1:p1,h2:p2/?cluster=true`. The port is 6379 where
    /// it is left out.
    pub url: String,
    /// The password, over one in the URL.
    pub password: Option<String>,
    /// What names of keys begin with: at most 64 letters, digits and `_-.:/`. Stores that share a Redis tell themselves
    /// apart by it.
    pub prefix: String,
    /// What bounds each key.
    pub bounds: HotBounds,
    /// The longest a request may take, connecting included.
    pub timeout: Duration,
}

impl Options {
    /// The defaults: prefix `filrouge`, [`HotBounds::default`], 250 ms.
    #[must_use]
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
    /// Without passwords.
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
