//! An OpenSearch server, which all test processes share, or which one test has for itself.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::binaries::{command, in_path};
use crate::database::hash;
use crate::folder;
use crate::http_server::{HttpServer, Program, readable_by_servers};
use crate::third_party::{self, Unavailable};

const POM: &str = include_str!("opensearch/pom.xml");
const LAYOUT: &str = include_str!("opensearch/layout.sh");
const SETTINGS: &str = include_str!("opensearch/opensearch.yml");
const LOG_SETTINGS: &str = include_str!("opensearch/log4j2.properties");

/// One node of OpenSearch, without users, on loopback. Tests use indices with names of their own.
///
/// Vector fields must say `"engine": "lucene"`: the default engine needs a native library that Maven Central does not
/// have, and without it the node crashes.
#[derive(Debug)]
pub struct OpenSearch(HttpServer);

impl OpenSearch {
    /// Joins the shared server, or starts it. The server is installed once, into `all`, which is
    /// `CARGO_TARGET_TMPDIR`.
    ///
    /// # Errors
    /// If Java 17 or Maven is missing, or Maven Central does not answer.
    pub fn shared(all: &Path) -> Result<&'static Self, Unavailable> {
        static SERVER: OnceLock<OpenSearch> = OnceLock::new();
        let (java, home) = (java()?, home(all)?);
        Ok(SERVER.get_or_init(|| Self(HttpServer::join_or_start(&server(java, home)))))
    }

    /// Starts a server that no other test uses, to be killed and restarted. It ends when it is dropped.
    ///
    /// # Errors
    /// As [`OpenSearch::shared`].
    pub fn private(all: &Path) -> Result<Self, Unavailable> {
        let (java, home) = (java()?, home(all)?);
        Ok(Self(HttpServer::private(server(java, home))))
    }

    /// Kills a private server (`SIGKILL`).
    ///
    /// # Panics
    /// If the server is shared.
    pub fn kill(&self) {
        self.0.kill();
    }

    /// Starts a private server after [`OpenSearch::kill`], with the same address and data. It is ready when this returns.
    ///
    /// # Panics
    /// If the server is shared, or does not start.
    pub fn restart(&self) {
        self.0.restart();
    }

    /// `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.0.tcp())
    }

    /// The folder with the server's files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.0.path()
    }
}

/// Returns the program `java`.
fn java() -> Result<PathBuf, Unavailable> {
    let from_home = std::env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin/java"));
    let java = from_home.filter(|java| java.exists());
    let java = java.or_else(|| in_path("java"));
    let java = java.ok_or_else(|| Unavailable("missing: Java 17".to_owned()))?;
    let version = Command::new(&java).arg("-version").output();
    let version = version.map_err(|e| Unavailable(format!("java: {e}")))?;
    let text = String::from_utf8_lossy(&version.stderr).into_owned();
    let number = text.split('"').nth(1).and_then(|v| v.split('.').next());
    // Java 24 has no security manager, which the server needs.
    match number.and_then(|number| number.parse::<u32>().ok()) {
        Some(17..=23) => Ok(java),
        _ => Err(Unavailable(format!("Java 17 is needed, not {text}"))),
    }
}

/// Returns the folder with the server's programs.
fn home(all: &Path) -> Result<PathBuf, Unavailable> {
    let versions = format!("{POM}{LAYOUT}");
    let folder = third_party::installed(all, "opensearch", &versions, |folder| {
        if in_path("mvn").is_none() {
            return Err(Unavailable("missing: Maven".to_owned()));
        }
        let pom = folder.join("pom.xml");
        std::fs::write(&pom, POM).expect("a file");
        let mut bash = Command::new("bash");
        bash.args(["-c", LAYOUT, "layout.sh"]).arg(folder).arg(&pom);
        third_party::run(&mut bash)
    })?;
    Ok(readable_by_servers(&folder, "opensearch", hash(&versions)))
}

/// The server with its programs in the folder `home`.
fn server(java: PathBuf, home: PathBuf) -> Program {
    let server = move |data: &Path, port: u16| {
        for name in ["config", "tmp"] {
            folder::create_for_servers(&data.join(name));
        }
        let transport = (port + 1).to_string();
        let settings = SETTINGS
            .replace("HTTP_PORT", &port.to_string())
            .replace("TRANSPORT_PORT", &transport)
            .replace("FOLDER", &data.display().to_string());
        folder::write(&data.join("config/opensearch.yml"), &settings);
        folder::write(&data.join("config/log4j2.properties"), LOG_SETTINGS);
        let property = |name: &str, value: &Path| format!("-D{name}={}", value.display());
        let temporary = data.join("tmp");
        let mut server = command(&java);
        server
            .env("HOME", data)
            .args(["-Xms512m", "-Xmx512m", "-XX:+UseSerialGC"])
            // Compiles less, and so starts sooner.
            .args(["-XX:TieredStopAtLevel=1", "-Djava.security.manager=allow"])
            .arg(property("java.io.tmpdir", &temporary))
            .arg(property("jna.tmpdir", &temporary))
            .args(["-Djna.nosys=true", "-Dlog4j2.disable.jmx=true"])
            .args(["-Dlog4j.shutdownHookEnabled=false"])
            .args(["-Dio.netty.noUnsafe=true"])
            .args(["-Dio.netty.allocator.numDirectArenas=0"])
            .arg(property("opensearch.path.home", &home))
            .arg(property("opensearch.path.conf", &data.join("config")))
            .args(["-Dopensearch.distribution.type=tar"])
            .args(["-Dopensearch.bundled_jdk=false"])
            .arg("-cp")
            .arg(home.join("lib/*"))
            .arg("org.opensearch.bootstrap.OpenSearch");
        server
    };
    Program {
        name: "opensearch",
        ports: 2,
        // The server answers before it has recovered its indices.
        ready: "/_cluster/health?wait_for_status=yellow&timeout=20s",
        command: Box::new(server),
    }
}
