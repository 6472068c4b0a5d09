//! A hermetic home folder, commands of the built binary in it, and servers.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use filrouge_testbed::third_party::or_report_untested;
use filrouge_testbed::{Database, OpenSearch};
use serde_json::Value;
use tempfile::TempDir;

use crate::http::Client;

/// The maximum time of a server's start, also on slow machines.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Lists the tables of a store in PostgreSQL.
const TABLES: &str = "SELECT tablename FROM pg_tables WHERE schemaname = 'filrouge'";

/// An empty home folder with a store; kept when a test fails.
///
/// The store is a SQLite file in the folder. If the tests' own environment has `FILROUGE_TEST_STORE=postgres`, it is an
/// empty PostgreSQL database, and every command gets its URL in `FILROUGE_STORE`. With `FILROUGE_TEST_SEARCH=opensearch`,
/// the search index is in OpenSearch.
pub(crate) struct World {
    dir: TempDir,
    servers: AtomicU32,
    /// The value of `FILROUGE_STORE`; absent if the store is in the home folder.
    url: Option<String>,
    database: Option<Database>,
    /// The durability in the responses to writes.
    durability: &'static str,
    /// More variables of every command.
    environment: Vec<(&'static str, String)>,
}

/// Whether [`World::new`] uses a PostgreSQL database.
fn on_postgres() -> bool {
    match std::env::var("FILROUGE_TEST_STORE").as_deref() {
        Ok("postgres") => true,
        Ok(other) => panic!("FILROUGE_TEST_STORE={other}: only postgres is known"),
        Err(_) => false,
    }
}

/// The shared server; `None` where OpenSearch is unavailable.
fn opensearch() -> Option<&'static OpenSearch> {
    let all = Path::new(env!("CARGO_TARGET_TMPDIR"));
    or_report_untested(all, "opensearch", "OpenSearch", OpenSearch::shared(all))
}

/// The number in a variable of the tests' own environment, or `default` if it is not set.
pub(crate) fn env_number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |n| n.parse().unwrap())
}

/// The durability in the responses to writes in a [`World::new`]. The tests' PostgreSQL server runs without fsync.
pub(crate) fn durability() -> &'static str {
    if on_postgres() { "buffered" } else { "flushed" }
}

/// The exit code and the output of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl World {
    pub(crate) fn new() -> Self {
        if on_postgres() {
            return Self::on_postgres();
        }
        Self::on_sqlite()
    }

    /// A world whose store is a SQLite file, even if `FILROUGE_TEST_STORE` names another store.
    pub(crate) fn on_sqlite() -> Self {
        Self::create(None, "flushed")
    }

    /// A world whose store is an empty PostgreSQL database.
    pub(crate) fn on_postgres() -> Self {
        let database = Database::new();
        let mut world = Self::at(&database.url(), "buffered");
        world.database = Some(database);
        world
    }

    /// A world whose store is at `url`; the responses to writes have this durability.
    pub(crate) fn at(url: &str, durability: &'static str) -> Self {
        Self::create(Some(url.to_owned()), durability)
    }

    /// Another machine: it shares only the store with this one, and has a copy of the keyring.
    pub(crate) fn other_machine(&self) -> Self {
        let url = self.url.as_deref().expect("a store that machines share");
        let other = Self::at(url, self.durability);
        fs::create_dir_all(other.keyring().parent().unwrap()).unwrap();
        fs::copy(self.keyring(), other.keyring()).unwrap();
        other
    }

    /// A world whose search index is in OpenSearch; `None` where OpenSearch is unavailable.
    #[allow(dead_code, reason = "another test binary includes this file")]
    pub(crate) fn on_opensearch() -> Option<Self> {
        let server = opensearch()?;
        let mut world = Self::new();
        world.search_with(server);
        Some(world)
    }

    /// Sets a variable of every command.
    #[allow(dead_code, reason = "another test binary includes this file")]
    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        self.environment.push((name, value.to_owned()));
    }

    /// Lets commands search with this server.
    fn search_with(&mut self, server: &OpenSearch) {
        // The server may run longer than this test.
        let name = self.dir.path().file_name().unwrap().to_string_lossy();
        let prefix = format!("{}-{}", name.to_lowercase(), std::process::id());
        self.environment = vec![
            ("FILROUGE_SEARCH_ENGINE", "opensearch".to_owned()),
            ("FILROUGE_SEARCH_OPENSEARCH_URL", server.url()),
            ("FILROUGE_SEARCH_OPENSEARCH_PREFIX", prefix),
        ];
    }

    fn create(url: Option<String>, durability: &'static str) -> Self {
        let mut world = Self {
            dir: TempDir::with_prefix("filrouge-e2e-").expect("a temporary directory"),
            servers: AtomicU32::new(0),
            url,
            database: None,
            durability,
            environment: Vec::new(),
        };
        if std::env::var("FILROUGE_TEST_SEARCH").as_deref() == Ok("opensearch")
            && let Some(server) = opensearch()
        {
            world.search_with(server);
        }
        world
    }

    /// The database of [`World::on_postgres`].
    pub(crate) fn database(&self) -> &Database {
        self.database.as_ref().expect("a world on PostgreSQL")
    }

    /// The path of a file in the home folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The default path of the store.
    pub(crate) fn store(&self) -> PathBuf {
        assert!(self.url.is_none(), "the store of this world is not a file");
        self.path("data/filrouge/filrouge.db")
    }

    pub(crate) fn keyring(&self) -> PathBuf {
        self.path("config/filrouge/keyring.json")
    }

    /// The binary with `arguments`, in an isolated environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_filrouge"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("FILROUGE_") {
                command.env_remove(name);
            }
        }
        command
            .args(arguments)
            .env("HOME", self.dir.path())
            .env("XDG_DATA_HOME", self.path("data"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("XDG_STATE_HOME", self.path("state"))
            .envs(self.environment.iter().cloned())
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        if let Some(url) = &self.url {
            command.env("FILROUGE_STORE", url);
        }
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        finish(self.command(arguments), &format!("{arguments:?}"))
    }

    /// Runs a command, which must succeed; returns its stdout.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let done = self.run(arguments);
        assert_eq!(done.code, Some(0), "{arguments:?}: {done:?}");
        done.stdout
    }

    /// Runs a command, which must succeed; returns the JSON document that it prints.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{arguments:?}: {e}\n{text}"))
    }

    /// Whether the store does not exist yet.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.database {
            Some(database) => database.sql(TABLES).is_empty(),
            None => !self.store().exists(),
        }
    }

    /// All stored data with names: the files of the data and state folders, and each row of the database.
    pub(crate) fn stored_data(&self) -> Vec<(String, Vec<u8>)> {
        let mut found = Vec::new();
        let mut paths = vec![self.path("data"), self.path("state")];
        while let Some(path) = paths.pop() {
            if path.is_dir() {
                paths.extend(fs::read_dir(path).unwrap().map(|e| e.unwrap().path()));
            } else if path.exists() {
                let bytes = fs::read(&path).unwrap();
                found.push((path.display().to_string(), bytes));
            }
        }
        if let Some(database) = &self.database {
            for table in database.sql(TABLES).into_iter().flatten().flatten() {
                // In this output format, printable bytes are not escaped.
                let rows =
                    format!("SET bytea_output = 'escape'; SELECT t::text FROM filrouge.{table} t");
                let rows = database.sql(&rows).into_iter().flatten().flatten();
                found.extend(rows.map(|row| (table.clone(), row.into_bytes())));
            }
        }
        assert!(found.len() > 1, "{found:?}");
        found
    }

    /// Checks that no file and no row contains `text`.
    #[track_caller]
    pub(crate) fn assert_not_stored(&self, text: &str) {
        for (name, bytes) in self.stored_data() {
            let found = bytes.windows(text.len()).any(|w| w == text.as_bytes());
            assert!(!found, "{text} is in {name}");
        }
    }

    /// Checks that the store is intact.
    pub(crate) fn verify(&self) {
        let report = self.json(&["verify"]);
        assert_eq!(report["status"], "intact", "{report}");
    }

    /// Starts a server.
    pub(crate) fn serve(&self) -> Server {
        self.serve_with(&[])
    }

    /// Starts a server with more arguments.
    pub(crate) fn serve_with(&self, arguments: &[&str]) -> Server {
        let serve = ["serve", "--listen", "127.0.0.1:0"];
        self.start(self.command(&[&serve, arguments].concat()), arguments)
    }

    /// Starts a server; returns its log if it does not start.
    #[allow(dead_code, reason = "another test binary includes this file")]
    pub(crate) fn try_serve(&self) -> Result<Server, String> {
        self.try_start(self.command(&["serve", "--listen", "127.0.0.1:0"]), &[])
    }

    /// Starts a server with environment variables and arguments; it listens on a free port by default.
    pub(crate) fn serve_with_env(
        &self,
        environment: &[(&str, &str)],
        arguments: &[&str],
    ) -> Server {
        let mut command = self.command(&[&["serve"], arguments].concat());
        command.env("FILROUGE_LISTEN", "127.0.0.1:0");
        command.envs(environment.iter().copied());
        self.start(command, arguments)
    }

    /// Starts `filrouge mcp` over HTTP; its origin ends in `/mcp`.
    #[allow(dead_code, reason = "another test binary includes this file")]
    pub(crate) fn start_mcp(&self, arguments: &[&str]) -> Server {
        let listen = ["mcp", "--listen", "127.0.0.1:0"];
        self.start(self.command(&[&listen, arguments].concat()), arguments)
    }

    /// Starts `filrouge ui`, which opens no browser, without the variables that name other histories.
    #[allow(dead_code, reason = "another test binary includes this file")]
    pub(crate) fn start_ui(&self, arguments: &[&str]) -> Server {
        let mut command = self.command(&[&["ui", "--no-open"], arguments].concat());
        for name in ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "OPENCODE_DB"] {
            command.env_remove(name);
        }
        self.start(command, arguments)
    }

    fn start(&self, command: Command, arguments: &[&str]) -> Server {
        self.try_start(command, arguments)
            .unwrap_or_else(|log| panic!("the server does not start: {log}"))
    }

    fn try_start(&self, mut command: Command, arguments: &[&str]) -> Result<Server, String> {
        // Writes to a store that `--store` names are flushed.
        let other = arguments.contains(&"--store");
        let durability = if other { "flushed" } else { self.durability };
        let number = self.servers.fetch_add(1, Ordering::Relaxed);
        let log = self.path(&format!("server-{number}.log"));
        command
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log).unwrap());
        Server::start(command, log, durability)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.dir.disable_cleanup(true);
            eprintln!("the test's files are in {}", self.dir.path().display());
        }
    }
}

/// Runs a command to its end; it must not panic. `what` names the command in a failure.
pub(crate) fn finish(mut command: Command, what: &str) -> CommandOutput {
    let output = command.output().expect("run filrouge");
    let done = CommandOutput {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    assert!(!done.stderr.contains("panicked"), "{what}: {done:?}");
    assert!(done.code.is_some(), "a signal ended {what}");
    done
}

/// A file or folder of the repository's fixtures.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(name)
}

/// Copies a folder with all that it contains.
pub(crate) fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A running server; killed when dropped.
pub(crate) struct Server {
    child: Child,
    origin: String,
    log: PathBuf,
    durability: &'static str,
}

impl Server {
    fn start(mut command: Command, log: PathBuf, durability: &'static str) -> Result<Self, String> {
        let mut child = command.spawn().expect("start the server");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            if let Some(Ok(line)) = lines.next() {
                sender.send(line).ok();
            }
            // Reads the rest, so that the server can always write.
            lines.for_each(drop);
        });
        let Ok(line) = receiver.recv_timeout(START_LIMIT) else {
            child.kill().ok();
            child.wait().ok();
            return Err(fs::read_to_string(&log).unwrap_or_default());
        };
        let origin = line.strip_prefix("listening on ").unwrap().to_owned();
        Ok(Self {
            child,
            origin,
            log,
            durability,
        })
    }

    /// `http://HOST:PORT`.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// An anonymous client of this server.
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.origin).expecting_durability(self.durability)
    }

    /// The server's stderr so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// The peak of the server's memory in bytes.
    pub(crate) fn memory_peak(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let kib = line.and_then(|l| l.trim().strip_suffix("kB")).unwrap();
        kib.trim().parse::<usize>().unwrap() << 10
    }

    /// Sends SIGTERM.
    pub(crate) fn ask_to_stop(&self) {
        let kill = format!("kill -TERM {}", self.child.id());
        let sent = Command::new("sh").arg("-c").arg(kill).status();
        assert!(sent.is_ok_and(|s| s.success()), "SIGTERM cannot be sent");
    }

    /// Sends SIGKILL, and waits until the server has ended.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM, and waits until the server has ended, which must be without an error.
    pub(crate) fn stop(self) {
        self.ask_to_stop();
        self.wait_for_exit();
    }

    /// Waits until the server has ended, which must be without an error; returns the log.
    pub(crate) fn wait_for_exit(mut self) -> String {
        let status = self.child.wait().unwrap();
        let log = fs::read_to_string(&self.log).unwrap();
        assert!(status.success(), "the server ended with {status}\n{log}");
        assert!(!log.contains("panicked"), "{log}");
        log
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
