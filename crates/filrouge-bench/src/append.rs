//! `append1` and `append32`: complete turns, each in its own commit or in shared commits.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use tokio::sync::{Barrier, mpsc, oneshot};

use crate::Setup;
use crate::product::Product;
use crate::raw::{LAYOUTS, Layout, QueuedTurn, RawStore, RawTurn, run_group_writer};
use crate::report::{Line, Section, Target, load_average};
use crate::stats::{Leg, Series, micros};
use crate::workload::{Turns, requests, session_id};

/// One session through the library, one call per turn.
pub(crate) async fn library_single(dir: &Path, turns: usize) -> Result<Leg> {
    let product = Product::open(dir, true).await?;
    let requests = requests(&Turns::new(7).next_turns(turns))?;
    let id = session_id(0)?;
    let mut latencies = Vec::with_capacity(turns);
    let start = Instant::now();
    for request in requests {
        let call_start = Instant::now();
        product
            .engine
            .turns
            .start(&product.caller, id.clone(), request)
            .await?;
        latencies.push(micros(call_start));
    }
    let leg = Leg::new(latencies, start.elapsed());
    product.close().await;
    Ok(leg)
}

/// The baseline of [`library_single`].
fn raw_single(dir: &Path, layout: Layout, turns: usize) -> Result<Leg> {
    let raw = RawStore::open(&dir.join("raw.db"), layout)?;
    let turns: Vec<RawTurn> = Turns::new(7)
        .next_turns(turns)
        .iter()
        .map(|t| RawTurn::new(0, t))
        .collect();
    let mut latencies = Vec::with_capacity(turns.len());
    let start = Instant::now();
    for turn in &turns {
        let call_start = Instant::now();
        raw.commit(turn)?;
        latencies.push(micros(call_start));
    }
    Ok(Leg::new(latencies, start.elapsed()))
}

/// Many concurrent sessions through the library; each writes its next turn after the answer to the previous one.
pub(crate) async fn library_concurrent(dir: &Path, sessions: usize, turns: usize) -> Result<Leg> {
    let product = Product::open(dir, true).await?;
    let barrier = Arc::new(Barrier::new(sessions + 1));
    let mut tasks = Vec::new();
    for n in 0..sessions {
        let (engine, caller, barrier) = (
            product.engine.clone(),
            product.caller.clone(),
            barrier.clone(),
        );
        let (id, requests) = (
            session_id(n)?,
            requests(&Turns::new(n as u64).next_turns(turns))?,
        );
        tasks.push(tokio::spawn(async move {
            barrier.wait().await;
            let mut latencies = Vec::with_capacity(requests.len());
            for request in requests {
                let call_start = Instant::now();
                engine.turns.start(&caller, id.clone(), request).await?;
                latencies.push(micros(call_start));
            }
            Ok::<_, anyhow::Error>(latencies)
        }));
    }
    barrier.wait().await;
    let start = Instant::now();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await??);
    }
    let leg = Leg::new(latencies, start.elapsed());
    product.close().await;
    Ok(leg)
}

/// The baseline of [`library_concurrent`]: all sessions send their turns to one writer thread.
async fn raw_concurrent(dir: &Path, layout: Layout, sessions: usize, turns: usize) -> Result<Leg> {
    let raw = RawStore::open(&dir.join("raw.db"), layout)?;
    let (sender, receiver) = mpsc::channel::<QueuedTurn>(1024);
    let writer = std::thread::spawn(move || run_group_writer(raw, receiver));
    let barrier = Arc::new(Barrier::new(sessions + 1));
    let mut tasks = Vec::new();
    for n in 0..sessions {
        let (sender, barrier) = (sender.clone(), barrier.clone());
        let raw_turns: Vec<RawTurn> = Turns::new(n as u64)
            .next_turns(turns)
            .iter()
            .map(|t| RawTurn::new(n, t))
            .collect();
        tasks.push(tokio::spawn(async move {
            barrier.wait().await;
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
            Ok::<_, anyhow::Error>(latencies)
        }));
    }
    drop(sender);
    barrier.wait().await;
    let start = Instant::now();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await??);
    }
    let leg = Leg::new(latencies, start.elapsed());
    writer.join().ok().context("the raw writer panicked")??;
    Ok(leg)
}

/// The series with the best median of a metric: the highest with `highest`, otherwise the lowest.
pub(crate) fn best_series(
    series: &[Series],
    metric: fn(&Leg) -> f64,
    highest: bool,
) -> Result<&Series> {
    let value = |s: &&Series| {
        let median = s.median(metric);
        if highest { -median } else { median }
    };
    series
        .iter()
        .min_by(|a, b| value(a).total_cmp(&value(b)))
        .context("no series to choose from")
}

/// `append1`.
pub(crate) async fn append1(setup: &Setup) -> Result<Section> {
    let before = load_average();
    let turns = setup.size(2000, 50);
    let mut limits: Vec<Series> = LAYOUTS.iter().map(|l| Series::new(l.name())).collect();
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
    let limit = best_series(&limits, |l| l.p50, false)?;
    let lines = vec![
        Line::series(
            "p50",
            (&product, limit),
            |l| l.p50,
            Target::AtMost(1.5),
            "µs",
        ),
        Line::series(
            "p50, limit behind a writer thread",
            (&product, &behind_writer),
            |l| l.p50,
            Target::Shown,
            "µs",
        ),
        Line::series("p99", (&product, limit), |l| l.p99, Target::Shown, "µs"),
        Line::series(
            "turns a second",
            (&product, limit),
            |l| l.per_s,
            Target::Shown,
            "/s",
        ),
    ];
    let notes = vec![format!(
        "{turns} turns per leg into a fresh store; limit: best layout by p50, on the caller's own thread"
    )];
    let load = (before, load_average());
    Ok(Section {
        name: "append1",
        lines,
        series: [vec![product, behind_writer], limits].concat(),
        notes,
        load,
    })
}

/// `append32`.
pub(crate) async fn append32(setup: &Setup) -> Result<Section> {
    let before = load_average();
    let (sessions, turns) = (32, setup.size(250, 8));
    let mut limits: Vec<Series> = LAYOUTS.iter().map(|l| Series::new(l.name())).collect();
    let mut product = Series::new("library, 32 tasks");
    for _ in 0..setup.pairs {
        for (series, layout) in limits.iter_mut().zip(LAYOUTS) {
            series
                .legs
                .push(raw_concurrent(setup.dir()?.path(), layout, sessions, turns).await?);
        }
        product
            .legs
            .push(library_concurrent(setup.dir()?.path(), sessions, turns).await?);
    }
    let limit = best_series(&limits, |l| l.per_s, true)?;
    let rate = product.median(|l| l.per_s);
    let min_rate = if setup.quick {
        Target::Shown
    } else {
        Target::AtLeast(6000.0)
    };
    let lines = vec![
        Line::series(
            "turns a second",
            (&product, limit),
            |l| l.per_s,
            Target::AtLeast(0.8),
            "/s",
        ),
        Line::number(
            "turns a second, absolute",
            rate,
            min_rate,
            format!("{rate:.0} /s"),
        ),
        Line::series("p50", (&product, limit), |l| l.p50, Target::Shown, "µs"),
        Line::series("p99", (&product, limit), |l| l.p99, Target::Shown, "µs"),
    ];
    let notes = vec![format!(
        "{sessions} tasks, {turns} turns each, fresh stores; limit: one writer thread that commits all waiting turns at once, best layout by turns a second"
    )];
    let load = (before, load_average());
    Ok(Section {
        name: "append32",
        lines,
        series: [vec![product], limits].concat(),
        notes,
        load,
    })
}
