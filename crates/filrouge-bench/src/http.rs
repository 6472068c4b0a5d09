//! `http32`: the built program over HTTP, compared with the bare program and with the library in the same run.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::Setup;
use crate::append::{BareProgram, library_single};
use crate::report::{Line, Section, Target};
use crate::stats::{Leg, Series, cpu_seconds, median};

/// The number of connections of the clients.
const CONNECTIONS: usize = 32;

/// The filrouge program: the one that `--binary` names, or one built by the cargo that runs this benchmark.
pub(crate) fn binary(setup: &Setup) -> Result<PathBuf> {
    if let Some(path) = &setup.binary {
        return Ok(path.clone());
    }
    if let Some(cargo) = std::env::var_os("CARGO") {
        let built = Command::new(cargo)
            .args(["build", "--release", "-q", "-p", "filrouge"])
            .status()?;
        ensure!(built.success(), "filrouge does not build");
    }
    let path = std::env::current_exe()?.with_file_name("filrouge");
    ensure!(
        path.exists(),
        "{} is missing: build it, or name it with --binary",
        path.display()
    );
    Ok(path)
}

/// A running `filrouge serve`.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    _dir: TempDir,
}

impl Server {
    fn start(setup: &Setup, binary: &Path) -> Result<Self> {
        let dir = setup.dir()?;
        let store = format!("sqlite:{}", dir.path().join("filrouge.db").display());
        Self::start_on(binary, dir, &store)
    }

    /// Starts a server on the store at `store`, with keyring and anchor in `dir`.
    pub(crate) fn start_on(binary: &Path, dir: TempDir, store: &str) -> Result<Self> {
        let mut child = Command::new(binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--store", store])
            .env("HOME", dir.path())
            .env("FILROUGE_KEYRING", dir.path().join("keyring.json"))
            .env("FILROUGE_ANCHOR", dir.path().join("anchor"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdout = child.stdout.take().context("no stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let Some(address) = line
            .trim()
            .rsplit("http://")
            .next()
            .filter(|a| a.contains(':'))
        else {
            child.kill()?;
            bail!("the server printed no address: {line:?}");
        };
        Ok(Self {
            address: address.to_owned(),
            child,
            _dir: dir,
        })
    }

    /// Runs the clients in a separate process.
    fn run_clients(&self, connections: usize, turns: usize) -> Result<Leg> {
        let out = Command::new(std::env::current_exe()?)
            .args(["child-load", "--address", &self.address])
            .args(["--connections", &connections.to_string()])
            .args(["--turns", &turns.to_string()])
            .output()?;
        ensure!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        Ok(serde_json::from_slice(&out.stdout)?)
    }

    /// The CPU time that the server has used so far, in seconds.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Kills only this run's child, which may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `http32`.
pub(crate) async fn http(setup: &Setup) -> Result<Section> {
    let binary = binary(setup)?;
    let (turns, turns_of_one) = (setup.size(250, 8), setup.size(1000, 20));
    let mut bare = BareProgram::new();
    let mut many = Series::new("HTTP, 32 connections, unpinned");
    let mut one = Series::new("HTTP, 1 connection, unpinned");
    let mut library = Series::new("library, 1 session, unpinned");
    // The server's CPU time per turn with many connections, µs.
    let mut cpu = Vec::new();
    for _ in 0..setup.pairs {
        bare.run(setup, CONNECTIONS, turns).await?;
        let server = Server::start(setup, &binary)?;
        let idle_cpu = server.cpu_seconds()?;
        many.legs.push(server.run_clients(CONNECTIONS, turns)?);
        let used = server.cpu_seconds()? - idle_cpu;
        cpu.push(used * 1e6 / (CONNECTIONS * turns) as f64);
        one.legs.push(server.run_clients(1, turns_of_one)?);
        drop(server);
        let leg = library_single(setup.dir()?.path(), turns_of_one).await?;
        library.legs.push(leg);
    }
    let cpu = median(cpu);
    let lines = vec![
        Line::rate(
            "32 connections / the bare program, turns a second",
            (&many, bare.best()?),
            Target::AtLeast(0.6),
        ),
        Line::of_builds(
            "32 connections, CPU time of the server per turn, µs",
            cpu,
            Target::AtMost(0.55),
            format!("{cpu:.0} µs"),
        ),
        Line::p50(
            "1 connection / library, p50",
            (&one, &library),
            Target::AtMost(1.2),
        ),
    ];
    let notes = vec![
        "one complete turn per POST, keep-alive; server and clients share all cores".to_owned(),
        "limit of 32 connections: the bare program of append32, in the same process as its 32 callers, best layout by turns a second".to_owned(),
    ];
    Ok(Section {
        name: "http32",
        lines,
        series: [vec![many, one, library], bare.series].concat(),
        notes,
        ..Section::default()
    })
}
