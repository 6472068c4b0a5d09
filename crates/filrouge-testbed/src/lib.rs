//! Runs real PostgreSQL, PgBouncer, Redis, OpenSearch and Weaviate servers for tests, on sockets and loopback ports of
//! their own, and simulates a failing network.
//!
//! - [`Database`]: an empty or prepared database on a server that all test processes of this user share. The server
//!   starts with the first of them and ends about 20 s after the last one exits, even if that one is killed.
//! - [`Server`]: a private server, to be stopped, paused and restarted.
//! - [`PgBouncer`]: transaction pooling in front of a [`Database`] or a [`Server`].
//! - [`Redis`]: a private server; [`RedisCluster`]: three masters, optionally with replicas.
//! - [`OpenSearch`], [`Weaviate`]: servers that all test processes share, as for [`Database`], or private ones, to be
//!   killed and restarted.
//! - [`FaultProxy`]: a proxy that loses a connection at a chosen moment.
//!
//! PostgreSQL is searched for in `PATH` and `/usr/lib/postgresql`, Redis in `PATH`. Missing programs are installed
//! where that is possible (root on Debian); otherwise the test fails with the names of the packages. PostgreSQL refuses
//! to run as root, so root's servers run as `postgres` or `nobody`. Linux only: processes are identified by `/proc`.
//! OpenSearch and Weaviate are installed into the build folder ([`third_party`]). Where that is impossible, their tests
//! check nothing and leave a note.
//!
//! All functions panic on failure: they are for tests only (DESIGN §13).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "only tests use this crate: a failure here fails the test"
)]

mod binaries;
mod database;
mod fault_proxy;
mod folder;
mod http_server;
mod install;
mod opensearch;
mod pgbouncer;
mod postgres_server;
mod psql;
mod redis;
mod server;
mod shared;
pub mod third_party;
mod weaviate;

use std::net::SocketAddr;

pub use database::Database;
pub use fault_proxy::{FaultProxy, Loss};
pub use opensearch::OpenSearch;
pub use pgbouncer::PgBouncer;
pub use redis::{Redis, RedisCluster};
pub use server::{Options, Server};
pub use weaviate::Weaviate;

/// One row of a query's result, each value as PostgreSQL writes it; `None` is NULL.
pub type Row = Vec<Option<String>>;

/// The superuser of every server of this crate, without a password.
pub const USER: &str = "postgres";

/// The address of a server: an IP address or the folder of its socket, and the port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// The URL of `database` at this address, for [`USER`]. The folder of a socket is percent-encoded.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let host = self.host.replace('%', "%25").replace('/', "%2F");
        format!("postgres://{USER}@{host}:{}/{database}", self.port)
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self {
            host: address.ip().to_string(),
            port: address.port(),
        }
    }
}
