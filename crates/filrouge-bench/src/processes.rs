//! `processes`: processes that write to one SQLite file at the same time, compared with one process that writes as many
//! sessions.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::Setup;
use crate::append::library_concurrent;
use crate::product::Product;
use crate::report::{Line, Section, Target};
use crate::sessions::{CallsPerTurn, SessionWriter};
use crate::stats::{Leg, Series};

/// The number of processes; each writes one session.
const PROCESSES: usize = 8;

/// A process that has opened the store, and writes its turns when it receives a line.
struct WriterProcess {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl WriterProcess {
    fn start(store: &Path, session: usize, turns: usize) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["child-writer", "--session", &session.to_string()])
            .args(["--turns", &turns.to_string(), "--store"])
            .arg(store)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().context("no stdout")?;
        let mut process = Self {
            child,
            stdout: BufReader::new(stdout),
        };
        process.read_line()?;
        Ok(process)
    }

    /// The next line that the process prints. A process whose turn is refused ends without it.
    fn read_line(&mut self) -> Result<String> {
        let mut line = String::new();
        let length = self.stdout.read_line(&mut line)?;
        ensure!(length > 0, "a process has ended early; its error is above");
        Ok(line)
    }

    fn begin(&mut self) -> Result<()> {
        let stdin = self.child.stdin.as_mut().context("no stdin")?;
        Ok(stdin.write_all(b"begin\n")?)
    }

    /// Waits until all turns are written; returns their latencies in µs.
    fn latencies(&mut self) -> Result<Vec<f64>> {
        Ok(serde_json::from_str(&self.read_line()?)?)
    }

    fn end(mut self) -> Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "a process has failed: {status}");
        Ok(())
    }
}

/// The process: opens the store, waits for a line, writes, and prints the latencies of the turns.
pub(crate) async fn child(store: &Path, session: usize, turns: usize) -> Result<()> {
    let product = Product::open(store, true).await?;
    let writer = SessionWriter::new(product.writer(), session, turns)?;
    let print = |line: &str| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}")?;
        out.flush()
    };
    print("ready")?;
    std::io::stdin().read_line(&mut String::new())?;
    let latencies = writer.write(CallsPerTurn::One).await?;
    print(&serde_json::to_string(&latencies)?)?;
    product.close().await;
    Ok(())
}

/// Runs one leg of [`PROCESSES`] processes.
fn run_processes(store: &Path, turns: usize) -> Result<Leg> {
    let mut processes = Vec::new();
    for session in 0..PROCESSES {
        processes.push(WriterProcess::start(store, session, turns)?);
    }
    let start = Instant::now();
    for process in &mut processes {
        process.begin()?;
    }
    let mut latencies = Vec::new();
    for process in &mut processes {
        latencies.extend(process.latencies()?);
    }
    let wall_time = start.elapsed();
    for process in processes {
        process.end()?;
    }
    Ok(Leg::new(latencies, wall_time))
}

/// `processes`.
pub(crate) async fn processes(setup: &Setup) -> Result<Section> {
    let turns = setup.size(500, 8);
    let mut many = Series::new("8 processes, a session each");
    let mut one = Series::new("1 process, 8 sessions");
    for _ in 0..setup.pairs {
        let dir = setup.dir()?;
        // The processes open an existing store.
        Product::open(dir.path(), true).await?.close().await;
        many.legs.push(run_processes(dir.path(), turns)?);
        let dir = setup.dir()?;
        let leg = library_concurrent(dir.path(), PROCESSES, turns, CallsPerTurn::One).await?;
        one.legs.push(leg);
    }
    let lines = vec![
        Line::rate("turns a second", (&many, &one), Target::AtLeast(0.7)),
        Line::p50("p50", (&many, &one), Target::Shown),
    ];
    let notes = vec![format!(
        "{turns} turns of each session, fresh stores with an anchor; no turn was refused: a refusal ends the run"
    )];
    Ok(Section {
        name: "processes",
        lines,
        series: vec![many, one],
        notes,
        ..Section::default()
    })
}
