//! `append1` and `append32`: complete turns, each in its own commit or in shared commits.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use tokio::sync::{mpsc, oneshot};

use crate::Setup;
use crate::product::Product;
use crate::raw::{LAYOUTS, Layout, QueuedTurn, RawStore, RawTurn, run_group_writer};
use crate::report::{Line, Section, Target};
use crate::sessions::{self, CallsPerTurn, SessionWriter};
use crate::stats::{Leg, Series, fastest, micros};
use crate::workload::Turns;

/// The number of the session of a single writer.
const SINGLE: usize = 7;

/// One session through the library, one call per turn.
pub(crate) async fn library_single(dir: &Path, turns: usize) -> Result<Leg> {
    let product = Product::open(dir, true).await?;
    let writer = SessionWriter::new(product.writer(), SINGLE, turns)?;
    let start = Instant::now();
    let latencies = writer.write(CallsPerTurn::One).await?;
    let leg = Leg::new(latencies, start.elapsed());
    product.close().await;
    Ok(leg)
}

/// The baseline of [`library_single`].
fn raw_single(dir: &Path, layout: Layout, turns: usize) -> Result<Leg> {
    let raw = RawStore::open(&dir.join("raw.db"), layout)?;
    let turns = raw_turns(SINGLE, turns);
    let mut latencies = Vec::with_capacity(turns.len());
    let start = Instant::now();
    for turn in &turns {
        let call_start = Instant::now();
        raw.commit(turn)?;
        latencies.push(micros(call_start));
    }
    Ok(Leg::new(latencies, start.elapsed()))
}

fn raw_turns(session: usize, turns: usize) -> Vec<RawTurn> {
    Turns::new(session as u64)
        .next_turns(turns)
        .iter()
        .map(|t| RawTurn::new(session, t))
        .collect()
}

/// Many concurrent sessions through the library; each writes its next turn after the answer to the previous one.
pub(crate) async fn library_concurrent(
    dir: &Path,
    sessions: usize,
    turns: usize,
    calls: CallsPerTurn,
) -> Result<Leg> {
    let product = Product::open(dir, true).await?;
    let leg = sessions::write(&[product.writer()], 0..sessions, turns, calls).await;
    product.close().await;
    leg
}

/// The baseline of [`library_concurrent`]: all sessions send their turns to one writer thread.
async fn raw_concurrent(dir: &Path, layout: Layout, sessions: usize, turns: usize) -> Result<Leg> {
    let raw = RawStore::open(&dir.join("raw.db"), layout)?;
    let (sender, receiver) = mpsc::channel::<QueuedTurn>(1024);
    let writer = std::thread::spawn(move || run_group_writer(raw, receiver));
    let mut tasks = Vec::new();
    for session in 0..sessions {
        let (sender, raw_turns) = (sender.clone(), raw_turns(session, turns));
        tasks.push(async move {
            let mut latencies = Vec::with_capacity(raw_turns.len());
            for turn in raw_turns {
                let call_start = Instant::now();
                let (reply, answer) = oneshot::channel();
                sender
                    .send((turn, reply))
                    .await
                    .ok()
                    .context("the raw writer thread has ended")?;
                answer.await?;
                latencies.push(micros(call_start));
            }
            anyhow::Ok(latencies)
        });
    }
    drop(sender);
    let leg = Leg::of_tasks(tasks).await?;
    writer.join().ok().context("the raw writer panicked")??;
    Ok(leg)
}

/// The bare program under concurrent sessions, in every layout.
pub(crate) struct BareProgram {
    /// One of each layout.
    pub(crate) series: Vec<Series>,
}

impl BareProgram {
    pub(crate) fn new() -> Self {
        Self {
            series: Layout::series(""),
        }
    }

    /// Runs one leg of each layout, into a fresh store.
    pub(crate) async fn run(&mut self, setup: &Setup, sessions: usize, turns: usize) -> Result<()> {
        for (series, layout) in self.series.iter_mut().zip(LAYOUTS) {
            let dir = setup.dir()?;
            let leg = raw_concurrent(dir.path(), layout, sessions, turns).await?;
            series.legs.push(leg);
        }
        Ok(())
    }

    /// The layout with the most turns a second.
    pub(crate) fn best(&self) -> Result<&Series> {
        let rate = |s: &Series| s.median(|l| l.per_s);
        let best = self
            .series
            .iter()
            .max_by(|a, b| rate(a).total_cmp(&rate(b)));
        best.context("no layout")
    }
}

/// `append1`.
pub(crate) async fn append1(setup: &Setup) -> Result<Section> {
    let turns = setup.size(2000, 50);
    let mut limits = Layout::series("");
    let mut product = Series::new("library");
    let mut behind_writer = Series::new("raw, a row per turn, behind a writer thread");
    for _ in 0..setup.pairs {
        for (series, layout) in limits.iter_mut().zip(LAYOUTS) {
            series
                .legs
                .push(raw_single(setup.dir()?.path(), layout, turns)?);
        }
        behind_writer
            .legs
            .push(raw_concurrent(setup.dir()?.path(), Layout::Turns, 1, turns).await?);
        product
            .legs
            .push(library_single(setup.dir()?.path(), turns).await?);
    }
    let limit = fastest(&limits)?;
    let lines = vec![
        Line::p50("p50", (&product, limit), Target::AtMost(1.3)),
        Line::p50(
            "p50, limit behind a writer thread",
            (&product, &behind_writer),
            Target::Shown,
        ),
        Line::rate("turns a second", (&product, limit), Target::Shown),
    ];
    let notes = vec![format!(
        "{turns} turns per leg into a fresh store; limit: best layout by p50, on the caller's own thread"
    )];
    Ok(Section {
        name: "append1",
        lines,
        series: [vec![product, behind_writer], limits].concat(),
        notes,
        ..Section::default()
    })
}

/// `append32`.
pub(crate) async fn append32(setup: &Setup) -> Result<Section> {
    let (sessions, turns) = (32, setup.size(250, 8));
    let mut bare = BareProgram::new();
    let mut product = Series::new("library, 32 tasks");
    let mut three_calls = Series::new("library, 32 tasks, three calls a turn");
    for _ in 0..setup.pairs {
        bare.run(setup, sessions, turns).await?;
        for (series, calls) in [
            (&mut product, CallsPerTurn::One),
            (&mut three_calls, CallsPerTurn::Three),
        ] {
            let dir = setup.dir()?;
            let leg = library_concurrent(dir.path(), sessions, turns, calls).await?;
            series.legs.push(leg);
        }
    }
    let limit = bare.best()?;
    let lines = vec![
        Line::rate("turns a second", (&product, limit), Target::AtLeast(1.0)),
        Line::rate(
            "turns a second, three calls a turn / one call",
            (&three_calls, &product),
            Target::AtLeast(0.5),
        ),
        Line::p50("p50", (&product, limit), Target::Shown),
    ];
    let notes = vec![format!(
        "{sessions} tasks, {turns} turns each, fresh stores; limit: one writer thread that commits all waiting turns at once, best layout by turns a second"
    )];
    Ok(Section {
        name: "append32",
        lines,
        series: [vec![product, three_calls], bare.series].concat(),
        notes,
        ..Section::default()
    })
}
