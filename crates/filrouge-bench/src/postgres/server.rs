//! The measured PostgreSQL server, and a fresh store for each leg.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use filrouge_testbed::{Options, Server};
use tempfile::TempDir;

use crate::Setup;
use crate::product::Product;
use crate::workload::{Turns, session_id};

/// The number of sessions in every store.
const SESSIONS: usize = 256;
/// The number of the first session: four digits, so that all names have the same length.
pub(crate) const FIRST_SESSION: usize = 1000;
/// The store that every leg's store is copied from.
const PREPARED_STORE: &str = "prepared";

/// Typical settings for a server of this size; none reduces durability.
const SETTINGS: &[(&str, &str)] = &[
    ("shared_buffers", "512MB"),
    ("max_wal_size", "4GB"),
    ("checkpoint_timeout", "30min"),
    // Otherwise autovacuum would run in some legs, because their databases are new.
    ("autovacuum_naptime", "1h"),
];

/// Starts a server without databases.
pub(crate) fn start(setup: &Setup) -> Server {
    let settings = SETTINGS.iter();
    let settings = settings.map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
    Server::start(Options {
        // Results of quick runs are not compared with targets, so durability does not matter.
        durable: !setup.quick,
        settings: settings.collect(),
    })
}

/// A durable PostgreSQL server.
pub(crate) struct DurableServer {
    pub(crate) postgres: Server,
    /// Has the keyring of all stores.
    dir: TempDir,
    /// The number of stores created so far.
    stores: AtomicUsize,
}

impl DurableServer {
    /// Starts the server, and has the product create a store with sessions of one turn each.
    pub(crate) async fn start(setup: &Setup) -> Result<Self> {
        let server = Self {
            postgres: start(setup),
            dir: setup.dir()?,
            stores: AtomicUsize::new(0),
        };
        server.sql("postgres", &format!("CREATE DATABASE {PREPARED_STORE}"));
        let product =
            Product::open_postgres(&server.postgres.url(PREPARED_STORE), server.dir.path()).await?;
        for n in 0..SESSIONS {
            let request = Turns::new(n as u64).next_turn().request()?;
            let id = session_id(FIRST_SESSION + n)?;
            product
                .engine
                .turns
                .start(&product.caller, id, request)
                .await?;
        }
        product.close().await;
        // A database in use cannot be copied, and the product's connections end shortly after it is closed.
        server.sql(
            "postgres",
            &format!("ALTER DATABASE {PREPARED_STORE} ALLOW_CONNECTIONS false"),
        );
        server.sql("postgres", &format!("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{PREPARED_STORE}'"));
        Ok(server)
    }

    pub(crate) fn sql(&self, database: &str, statements: &str) -> Vec<filrouge_testbed::Row> {
        self.postgres.sql(database, statements)
    }

    /// A fresh copy of the prepared store, after a checkpoint, so that every leg starts in the same state.
    pub(crate) fn store(&self) -> Store<'_> {
        let name = format!("leg_{}", self.stores.fetch_add(1, Ordering::Relaxed));
        let create = format!("CREATE DATABASE {name} TEMPLATE {PREPARED_STORE}");
        self.sql("postgres", &create);
        self.sql(&name, "CHECKPOINT");
        Store { server: self, name }
    }
}

/// The store of one leg, dropped with its database.
pub(crate) struct Store<'s> {
    pub(crate) server: &'s DurableServer,
    pub(crate) name: String,
}

impl Store<'_> {
    pub(crate) fn url(&self) -> String {
        self.server.postgres.url(&self.name)
    }

    /// Makes flushes slow, as those of a slow disk, for connections that are opened later.
    pub(crate) fn slow_down_flushes(&self) {
        for setting in ["commit_delay = 3000", "commit_siblings = 0"] {
            let statement = format!("ALTER DATABASE {} SET {setting}", self.name);
            self.server.sql("postgres", &statement);
        }
    }

    /// A new folder for the anchor, with a copy of the keyring.
    pub(crate) fn anchor_dir(&self) -> Result<TempDir> {
        let dir = tempfile::tempdir_in(self.server.dir.path())?;
        let name = "keyring.json";
        std::fs::copy(self.server.dir.path().join(name), dir.path().join(name))?;
        Ok(dir)
    }
}

impl Drop for Store<'_> {
    fn drop(&mut self) {
        let statement = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        self.server.sql("postgres", &statement);
    }
}
