//! `http32`: the built program over HTTP, compared with the library in the same run.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::Setup;
use crate::append::{library_concurrent, library_single};
use crate::report::{Line, Section, Target, load_average};
use crate::stats::{Leg, Series, cpu_seconds};

/// The cores of the server and of its clients in pinned legs.
const SERVER_CORE: &str = "0";
const CLIENT_CORE: &str = "1";

/// A command that runs on `core`, if one is given.
fn command(program: &Path, core: Option<&str>) -> Command {
    match core {
        Some(core) => {
            let mut command = Command::new("taskset");
            command.args(["-c", core]).arg(program);
            command
        }
        None => Command::new(program),
    }
}

fn pinning_works() -> bool {
    [SERVER_CORE, CLIENT_CORE].iter().all(|core| {
        Command::new("taskset")
            .args(["-c", core, "true"])
            .output()
            .is_ok_and(|o| o.status.success())
    })
}

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
    fn start(setup: &Setup, binary: &Path, core: Option<&str>) -> Result<Self> {
        let dir = setup.dir()?;
        let store = format!("sqlite:{}", dir.path().join("filrouge.db").display());
        Self::start_on(binary, core, dir, &store)
    }

    /// Starts a server on the store at `store`, with keyring and anchor in `dir`.
    pub(crate) fn start_on(
        binary: &Path,
        core: Option<&str>,
        dir: TempDir,
        store: &str,
    ) -> Result<Self> {
        let mut child = command(binary, core)
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
    fn run_clients(&self, core: Option<&str>, connections: usize, turns: usize) -> Result<Leg> {
        let mut child = command(&std::env::current_exe()?, core);
        child.args(["child-load", "--address", &self.address]);
        child.args([
            "--connections",
            &connections.to_string(),
            "--turns",
            &turns.to_string(),
        ]);
        run_leg(child)
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

/// Runs a child process that prints the results of a leg as JSON.
fn run_leg(mut child: Command) -> Result<Leg> {
    let out = child.output()?;
    ensure!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    Ok(serde_json::from_slice(&out.stdout)?)
}

/// Runs the library with its callers, all on one core.
fn pinned_library(setup: &Setup, turns: usize) -> Result<Leg> {
    let mut child = command(&std::env::current_exe()?, Some(SERVER_CORE));
    child
        .args(["child-library", "--turns", &turns.to_string(), "--dir"])
        .arg(&setup.root);
    run_leg(child)
}

/// The legs of one placement of server and clients.
struct PlacementSeries {
    many: Series,
    one: Series,
    library: Series,
    library_single: Series,
}

/// Runs the legs of one placement, `pinned` to cores or not.
async fn run_pair(
    setup: &Setup,
    binary: &Path,
    pinned: bool,
    series: &mut PlacementSeries,
) -> Result<()> {
    let (turns, turns_of_one) = (setup.size(250, 8), setup.size(1000, 20));
    let on_core = |core| pinned.then_some(core);
    let server = Server::start(setup, binary, on_core(SERVER_CORE))?;
    series
        .many
        .legs
        .push(server.run_clients(on_core(CLIENT_CORE), 32, turns)?);
    series
        .one
        .legs
        .push(server.run_clients(on_core(CLIENT_CORE), 1, turns_of_one)?);
    drop(server);
    series.library.legs.push(if pinned {
        pinned_library(setup, turns)?
    } else {
        library_concurrent(setup.dir()?.path(), 32, turns).await?
    });
    if !pinned {
        series
            .library_single
            .legs
            .push(library_single(setup.dir()?.path(), turns_of_one).await?);
    }
    Ok(())
}

/// The series of one placement, without legs.
fn empty_series(placement: &str) -> PlacementSeries {
    PlacementSeries {
        many: Series::new(format!("HTTP, 32 connections, {placement}")),
        one: Series::new(format!("HTTP, 1 connection, {placement}")),
        library: Series::new(format!("library, 32 tasks, {placement}")),
        library_single: Series::new(format!("library, 1 session, {placement}")),
    }
}

/// `http32`.
pub(crate) async fn http(setup: &Setup) -> Result<Section> {
    let before = load_average();
    let binary = binary(setup)?;
    let can_pin = pinning_works();
    let (mut pinned, mut unpinned) = (empty_series("pinned"), empty_series("unpinned"));
    for _ in 0..setup.pairs {
        run_pair(setup, &binary, false, &mut unpinned).await?;
        if can_pin {
            run_pair(setup, &binary, true, &mut pinned).await?;
        }
    }
    let rate: fn(&Leg) -> f64 = |l| l.per_s;
    let half_target = Target::AtLeast(0.5);
    let mut lines = Vec::new();
    if can_pin {
        lines.push(Line::series(
            "server on its own core / library unpinned",
            (&pinned.many, &unpinned.library),
            rate,
            half_target,
            "/s",
        ));
        lines.push(Line::series(
            "server on its own core / library with its callers on one core",
            (&pinned.many, &pinned.library),
            rate,
            Target::Shown,
            "/s",
        ));
    }
    lines.push(Line::series(
        "both unpinned",
        (&unpinned.many, &unpinned.library),
        rate,
        half_target,
        "/s",
    ));
    lines.push(Line::series(
        "1 connection / library, p50",
        (&unpinned.one, &unpinned.library_single),
        |l| l.p50,
        Target::Shown,
        "µs",
    ));
    let placement = if can_pin {
        format!(
            "pinned: server on core {SERVER_CORE}, clients on core {CLIENT_CORE} (taskset); library pinned: all on core {SERVER_CORE}"
        )
    } else {
        "not pinned: taskset does not work here".to_owned()
    };
    let notes = vec![
        placement,
        "one complete turn per POST, keep-alive; the clients share the machine with the server"
            .to_owned(),
    ];
    let mut series = vec![
        unpinned.many,
        unpinned.one,
        unpinned.library,
        unpinned.library_single,
    ];
    if can_pin {
        series.extend([pinned.many, pinned.one, pinned.library]);
    }
    Ok(Section {
        name: "http32",
        lines,
        series,
        notes,
        load: (before, load_average()),
    })
}
