//! The options with which a ledger is opened.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use filrouge_store::record::MacCheck;
use filrouge_store::{Entropy, Keyring, Lanes};
use filrouge_types::{Clock, Result};

use crate::target::Target;

/// The options with which a ledger is opened.
#[derive(Clone)]
pub struct Options {
    /// The PostgreSQL server, or a pooler in front of it.
    pub(crate) server: Target,
    /// The PostgreSQL server itself, if [`Self::server`] is a pooler: a pooler delivers no notifications of commits.
    pub(crate) direct: Option<Target>,
    /// The password for each URL that contains none.
    password: Option<String>,
    /// The keys that authenticate the stored data.
    pub keyring: Arc<Keyring>,
    /// The source of randomness for salts and random ids.
    pub entropy: Arc<dyn Entropy>,
    /// The store's clock; by default the database server's.
    pub clock: Option<Arc<dyn Clock>>,
    /// The maximum number of concurrent reads.
    pub readers: u32,
    /// How long a statement waits for a lock, for example while another server commits.
    pub lock_timeout: Duration,
    /// How long to wait for an answer of PostgreSQL before the connection counts as lost.
    pub answer_timeout: Duration,
    /// How long a write is retried after its connection was lost, to find out whether it was committed.
    pub settle_timeout: Duration,
    /// Whether the MACs (message authentication codes) of the stored data are checked when it is read.
    pub check: MacCheck,
    /// Whether to create a store if there is none.
    pub make: bool,
    /// The number of lanes of a store that is created. A store that exists keeps its own.
    pub lanes: Lanes,
    /// Whether a store that is created is distributed with Citus. If so, a store that exists must be distributed too.
    pub distribute: bool,
}

impl Options {
    /// The default options for the server at `url`, which has the form `postgres://user@host/database`
    /// (docs/postgresql.md lists its parameters). If it names several hosts, the first that accepts writes is used.
    /// Reads the files of certificates that the URL names.
    ///
    /// # Errors
    /// `invalid` when `url` is malformed, has an unknown parameter, or names a certificate that cannot be read. No
    /// error contains the URL, because the URL may contain a password.
    pub fn new(url: &str, keyring: Arc<Keyring>, entropy: Arc<dyn Entropy>) -> Result<Self> {
        Ok(Self {
            server: Target::parse(url)?,
            direct: None,
            password: None,
            keyring,
            entropy,
            clock: None,
            readers: 8,
            lock_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(30),
            settle_timeout: Duration::from_secs(8),
            check: MacCheck::Keyed,
            make: true,
            lanes: default_lanes(),
            distribute: false,
        })
    }

    /// Sets the URL of the PostgreSQL server itself, for a store whose URL leads to a pooler: then this process is
    /// notified of other servers' commits at once, and need not poll.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn with_direct(mut self, url: &str) -> Result<Self> {
        let mut direct = Target::parse(url)?;
        if let Some(password) = &self.password {
            direct.set_password(password);
        }
        self.direct = Some(direct);
        Ok(self)
    }

    /// Sets the password for the URLs that contain none. This includes the URL of [`Self::with_direct`], whichever of
    /// the two methods is called first.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> Self {
        self.server.set_password(password);
        if let Some(direct) = &mut self.direct {
            direct.set_password(password);
        }
        self.password = Some(password.to_owned());
        self
    }
}

/// The default number of lanes of a new store, which is 8 (docs/scaling.md).
pub fn default_lanes() -> Lanes {
    Lanes::new(8).unwrap_or(Lanes::ONE)
}

/// Omits passwords and keys.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("server", &self.server)
            .field("direct", &self.direct)
            .field("readers", &self.readers)
            .field("lock_timeout", &self.lock_timeout)
            .field("answer_timeout", &self.answer_timeout)
            .field("settle_timeout", &self.settle_timeout)
            .field("check", &self.check)
            .field("lanes", &self.lanes)
            .field("distribute", &self.distribute)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use filrouge_store::OsEntropy;

    use super::*;

    fn options_for(url: &str) -> Options {
        let keyring = Arc::new(Keyring::single([5; 32]));
        Options::new(url, keyring, Arc::new(OsEntropy)).unwrap()
    }

    fn passwords(target: &Target) -> Vec<Option<&[u8]>> {
        let servers = target.servers.iter();
        servers.map(tokio_postgres::Config::get_password).collect()
    }

    #[test]
    fn the_password_applies_to_both_urls_in_either_order() {
        let (store, direct) = ("postgres://a@pool/d", "postgres://a@one,two/d");
        let password_first = options_for(store)
            .with_password("geheim")
            .with_direct(direct);
        let password_last = options_for(store).with_direct(direct).unwrap();
        for options in [
            password_first.unwrap(),
            password_last.with_password("geheim"),
        ] {
            assert_eq!(passwords(&options.server), [Some(&b"geheim"[..])]);
            let direct = options.direct.as_ref().unwrap();
            assert_eq!(passwords(direct), [Some(&b"geheim"[..]); 2]);
            assert!(!format!("{options:?}").contains("geheim"));
        }
    }

    #[test]
    fn a_password_in_the_url_is_kept() {
        let options = options_for("postgres://a@pool/d").with_password("geheim");
        let options = options.with_direct("postgres://a:eigen@one/d").unwrap();
        let direct = options.direct.as_ref().unwrap();
        assert_eq!(passwords(direct), [Some(&b"eigen"[..])]);
    }
}
