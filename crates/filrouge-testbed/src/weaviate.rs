//! A Weaviate server, which all test processes share, or which one test has for itself.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::binaries::{command, in_path};
use crate::database::hash;
use crate::folder;
use crate::http_server::{HttpServer, Program, readable_by_servers};
use crate::third_party::{self, Unavailable};

const BUILD: &str = include_str!("weaviate/build.sh");

/// One node of Weaviate. Requests need [`Weaviate::key`].
///
/// HTTP, gossip and raft listen on loopback. Weaviate opens the ports of gRPC and of its nodes' data on all interfaces,
/// without a setting for this. The key also protects gRPC, and a random password the data. A shared server ends about
/// 20 s after the last test.
#[derive(Debug)]
pub struct Weaviate {
    server: HttpServer,
    key: String,
}

impl Weaviate {
    /// Joins the shared server, or starts it. The server is built once, into `all`, which is `CARGO_TARGET_TMPDIR`; this
    /// takes about five minutes.
    ///
    /// # Errors
    /// If Go 1.25 is missing, or the Go module proxy does not answer.
    pub fn shared(all: &Path) -> Result<&'static Self, Unavailable> {
        static SERVER: OnceLock<Weaviate> = OnceLock::new();
        let program = program(all)?;
        Ok(SERVER.get_or_init(|| Self::with_key(HttpServer::join_or_start(&server(program)))))
    }

    /// Starts a server that no other test uses, to be killed and restarted. It ends when it is dropped.
    ///
    /// # Errors
    /// As [`Weaviate::shared`].
    pub fn private(all: &Path) -> Result<Self, Unavailable> {
        let program = program(all)?;
        Ok(Self::with_key(HttpServer::private(server(program))))
    }

    fn with_key(server: HttpServer) -> Self {
        let key = std::fs::read_to_string(server.path().join("weaviate/key")).expect("a key");
        Self { server, key }
    }

    /// Kills a private server (`SIGKILL`).
    ///
    /// # Panics
    /// If the server is shared.
    pub fn kill(&self) {
        self.server.kill();
    }

    /// Starts a private server after [`Weaviate::kill`], with the same address, key and data. It is ready when this
    /// returns.
    ///
    /// # Panics
    /// If the server is shared, or does not start.
    pub fn restart(&self) {
        self.server.restart();
    }

    /// `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.server.tcp())
    }

    /// The API key, a bearer token.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// Returns the server's program.
fn program(all: &Path) -> Result<PathBuf, Unavailable> {
    let folder = third_party::installed(all, "weaviate", BUILD, |folder| {
        if in_path("go").is_none() {
            return Err(Unavailable("missing: Go 1.25".to_owned()));
        }
        let mut bash = Command::new("bash");
        bash.args(["-c", BUILD, "build.sh"]);
        third_party::run(bash.arg(folder.join("weaviate-server")))
    })?;
    let folder = readable_by_servers(&folder, "weaviate", hash(BUILD));
    Ok(folder.join("weaviate-server"))
}

fn server(program: PathBuf) -> Program {
    let server = move |data: &Path, port: u16| {
        let file = data.join("key");
        let key = std::fs::read_to_string(&file).unwrap_or_else(|_| {
            let key = random_secret();
            folder::write_secret(&file, &key);
            key
        });
        let mut server = command(&program);
        server
            .args(["--scheme", "http", "--host", "127.0.0.1"])
            .args(["--port", &port.to_string()])
            .envs(SETTINGS.iter().copied())
            .env("PERSISTENCE_DATA_PATH", data.join("data"))
            .env("AUTHENTICATION_APIKEY_ALLOWED_KEYS", &key)
            .env("CLUSTER_BASIC_AUTH_PASSWORD", random_secret())
            .env("RAFT_JOIN", format!("node1:{}", port + 4));
        let ports = [
            "GRPC_PORT",
            "CLUSTER_GOSSIP_BIND_PORT",
            "CLUSTER_DATA_BIND_PORT",
            "RAFT_PORT",
            "RAFT_INTERNAL_RPC_PORT",
        ];
        for (name, port) in ports.into_iter().zip(port + 1..) {
            server.env(name, port.to_string());
        }
        server
    };
    Program {
        name: "weaviate",
        ports: 6,
        ready: "/v1/.well-known/ready",
        command: Box::new(server),
    }
}

const SETTINGS: [(&str, &str); 21] = [
    ("AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED", "false"),
    ("AUTHENTICATION_APIKEY_ENABLED", "true"),
    ("AUTHENTICATION_APIKEY_USERS", "filrouge"),
    ("CLUSTER_BASIC_AUTH_USERNAME", "filrouge"),
    ("DEFAULT_VECTORIZER_MODULE", "none"),
    // Otherwise the modules of vectorizers on the Internet are loaded.
    ("API_BASED_MODULES_DISABLED", "true"),
    ("ENABLE_MODULES", ""),
    ("DISABLE_TELEMETRY", "true"),
    // Otherwise it listens on port 6060.
    ("GO_PROFILING_DISABLE", "true"),
    // Data of a node with another name is not served.
    ("CLUSTER_HOSTNAME", "node1"),
    ("CLUSTER_IN_LOCALHOST", "true"),
    ("CLUSTER_BIND_ADDR", "127.0.0.1"),
    ("CLUSTER_ADVERTISE_ADDR", "127.0.0.1"),
    ("RAFT_BOOTSTRAP_EXPECT", "1"),
    ("RAFT_BOOTSTRAP_TIMEOUT", "60"),
    // With the default, a single node waits about 5 s for its own election.
    ("RAFT_TIMEOUTS_MULTIPLIER", "1"),
    ("AUTOSCHEMA_ENABLED", "false"),
    ("DISK_USE_READONLY_PERCENTAGE", "99"),
    ("DISK_USE_WARNING_PERCENTAGE", "98"),
    ("GOMEMLIMIT", "1GiB"),
    // Otherwise BM25 of this version omits hits among unflushed writes.
    ("USE_INVERTED_SEARCHABLE", "false"),
];

fn random_secret() -> String {
    let part = || RandomState::new().hash_one(0_u8);
    format!("{:016x}{:016x}", part(), part())
}
