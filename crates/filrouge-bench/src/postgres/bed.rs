//! The server that is measured, and a store with its sessions for each leg.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use filrouge_testbed::{Options, Server};
use tempfile::TempDir;

use crate::Setup;
use crate::product::Product;
use crate::workload::{Turns, session};

/// Sessions of every store; as many write at once.
pub(crate) const SESSIONS: usize = 32;
/// The n-th session's number in its name: all names are as long.
pub(crate) const NAMED_FROM: usize = 1000;
/// The store that every leg's is a copy of.
const PREPARED: &str = "prepared";

/// As an operator would set a server of this size; nothing is taken from durability.
const SETTINGS: &[(&str, &str)] = &[
    ("shared_buffers", "512MB"),
    ("max_wal_size", "4GB"),
    ("checkpoint_timeout", "30min"),
    ("logging_collector", "on"),
    ("log_destination", "jsonlog"),
    ("log_directory", "log"),
    ("log_filename", "statements"),
    ("log_checkpoints", "off"),
    // It would come by at a new database, and so in some legs.
    ("autovacuum_naptime", "1h"),
];

/// A durable server.
pub(crate) struct Bed {
    pub(crate) server: Server,
    /// Holds the keyring of all its stores.
    dir: TempDir,
    made: AtomicUsize,
}

impl Bed {
    /// Starts it, and has the product make a store with sessions of one turn each.
    pub(crate) async fn start(setup: &Setup) -> Result<Self> {
        let settings = SETTINGS.iter();
        let settings = settings.map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        let bed = Self {
            server: Server::start(Options {
                // What is quick judges nothing.
                durable: !setup.quick,
                settings: settings.collect(),
            }),
            dir: setup.dir()?,
            made: AtomicUsize::new(0),
        };
        bed.sql("postgres", &format!("CREATE DATABASE {PREPARED}"));
        let product = Product::open_postgres(&bed.server.url(PREPARED), bed.dir.path()).await?;
        for n in 0..SESSIONS {
            let request = Turns::new(n as u64).one().request()?;
            let id = session(NAMED_FROM + n)?;
            product
                .engine
                .turns
                .start(&product.caller, id, request)
                .await?;
        }
        product.close().await;
        // Nobody may copy a database in use, and the product's connections end a moment after it.
        bed.sql(
            "postgres",
            &format!("ALTER DATABASE {PREPARED} ALLOW_CONNECTIONS false"),
        );
        bed.sql("postgres", &format!("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{PREPARED}'"));
        Ok(bed)
    }

    pub(crate) fn sql(&self, database: &str, statements: &str) -> Vec<filrouge_testbed::Row> {
        self.server.sql(database, statements)
    }

    /// The first value of the first row.
    pub(crate) fn value(&self, database: &str, statement: &str) -> Result<String> {
        let row = self.sql(database, statement).into_iter().next();
        let value = row.and_then(|row| row.into_iter().next().flatten());
        value.with_context(|| format!("no answer to {statement}"))
    }

    /// A fresh copy of the prepared store, checkpointed: every leg begins alike.
    pub(crate) fn store(&self) -> Store<'_> {
        let name = format!("leg_{}", self.made.fetch_add(1, Ordering::Relaxed));
        let make = format!("CREATE DATABASE {name} TEMPLATE {PREPARED}");
        self.sql("postgres", &make);
        self.sql(&name, "CREATE SEQUENCE turns START 1000; CHECKPOINT");
        Store { bed: self, name }
    }
}

/// A leg's own store.
pub(crate) struct Store<'b> {
    pub(crate) bed: &'b Bed,
    pub(crate) name: String,
}

impl Store<'_> {
    pub(crate) fn url(&self) -> String {
        self.bed.server.url(&self.name)
    }

    /// Where the keyring and the anchor lie.
    pub(crate) fn anchored_in(&self) -> Result<TempDir> {
        let dir = tempfile::tempdir_in(self.bed.dir.path())?;
        let name = "keyring.json";
        std::fs::copy(self.bed.dir.path().join(name), dir.path().join(name))?;
        Ok(dir)
    }
}

impl Drop for Store<'_> {
    fn drop(&mut self) {
        let statement = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        self.bed.sql("postgres", &statement);
    }
}
