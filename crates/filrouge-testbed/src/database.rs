//! A private database on the shared server.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

use crate::postgres_server::PostgresServer;
use crate::psql::sql;
use crate::{Address, Row, folder, shared};

/// A database on the server that all test processes share. Dropping this value drops the database, in spite of open
/// connections; databases of killed processes disappear with the server.
///
/// The server runs with `fsync = off`: tests of durability need a [`crate::Server`].
#[derive(Debug)]
pub struct Database {
    server: &'static PostgresServer,
    name: String,
}

impl Database {
    /// Creates an empty database.
    #[must_use]
    #[allow(
        clippy::new_without_default,
        reason = "a default value should not start a server"
    )]
    pub fn new() -> Self {
        Self::create(shared::server(), "template0")
    }

    /// Creates a copy of a template database, which `prepare` fills; it receives the URL of an empty database.
    /// `prepare` runs once per `name` during the lifetime of the shared server, so `name` must include everything that
    /// changes the result, such as a version or a hash. `prepare` must leave no connection open.
    pub fn from_template(name: &str, prepare: impl FnOnce(&str)) -> Self {
        let server = shared::server();
        let template = format!("template_{:016x}", hash(name));
        // Waits for another process that is preparing the same template.
        let lock = folder::lock_exclusively("template");
        let is_ready =
            format!("SELECT 1 FROM pg_database WHERE datname = '{template}' AND datistemplate");
        if sql(&server.socket(), "postgres", &is_ready).is_empty() {
            prepare_template(server, &template, prepare);
        }
        drop(lock);
        Self::create(server, &template)
    }

    fn create(server: &'static PostgresServer, template: &str) -> Self {
        let name = format!("test_{:016x}", RandomState::new().hash_one(template));
        let statement = format!("CREATE DATABASE {name} TEMPLATE {template}");
        sql(&server.socket(), "postgres", &statement);
        Self { server, name }
    }

    /// The database's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The database's URL over the server's socket, whose folder is the percent-encoded host.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.socket().url(&self.name)
    }

    /// The database's URL over loopback.
    #[must_use]
    pub fn tcp_url(&self) -> String {
        Address::from(self.server.tcp()).url(&self.name)
    }

    /// The server's loopback address.
    #[must_use]
    pub fn tcp(&self) -> SocketAddr {
        self.server.tcp()
    }

    /// Runs statements as the superuser, each in its own transaction unless they begin one; returns the rows of all of
    /// them, in order.
    ///
    /// # Panics
    /// If a statement fails, with the output of `psql`; the later statements do not run.
    pub fn sql(&self, statements: &str) -> Vec<Row> {
        sql(&self.server.socket(), &self.name, statements)
    }

    /// Ends every connection to this database (`pg_terminate_backend`); returns their number.
    pub fn terminate_backends(&self) -> usize {
        terminate_backends_of(self.server, &self.name)
    }
}

impl From<&Database> for Address {
    /// The server's socket.
    fn from(database: &Database) -> Self {
        database.server.socket()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The test has already failed: an error here must not hide the cause.
            let dropped = std::panic::catch_unwind(|| self.drop_database());
            drop(dropped);
        } else {
            self.drop_database();
        }
    }
}

impl Database {
    fn drop_database(&self) {
        let statement = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        sql(&self.server.socket(), "postgres", &statement);
    }
}

fn prepare_template(server: &PostgresServer, template: &str, prepare: impl FnOnce(&str)) {
    let run = |statements: &str| sql(&server.socket(), "postgres", statements);
    // Removes the remains of a failed preparation.
    run(&format!("DROP DATABASE IF EXISTS {template} WITH (FORCE)"));
    run(&format!("CREATE DATABASE {template} TEMPLATE template0"));
    prepare(&server.socket().url(template));
    // The backend of a closed connection may still run for a moment, and a database in use cannot be copied.
    run(&format!(
        "ALTER DATABASE {template} ALLOW_CONNECTIONS false"
    ));
    while terminate_backends_of(server, template) > 0 {}
    run(&format!("ALTER DATABASE {template} IS_TEMPLATE true"));
}

fn terminate_backends_of(server: &PostgresServer, database: &str) -> usize {
    let statement = format!(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
         WHERE datname = '{database}' AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    );
    sql(&server.socket(), "postgres", &statement).len()
}

/// Hashes a name with FNV-1a, which gives the same value in every process.
pub(crate) fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
