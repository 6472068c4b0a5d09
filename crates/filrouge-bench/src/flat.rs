//! `flat`: compares the cost of turn 10,000 with that of turn 10, and late memory with early memory.

use std::fs;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::Setup;
use crate::product::Product;
use crate::report::{Line, Section, Target};
use crate::stats::{median, micros};
use crate::workload::{Turns, requests, session_id};

/// The number of bytes that this process has passed to write calls.
fn bytes_written() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/io")?;
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix("wchar: "))
        .context("no wchar in /proc/self/io")?;
    Ok(line.parse()?)
}

/// A turn's median time and mean bytes. About every other turn writes a new page, so a median of bytes would compare
/// odd turns with even ones. Turns in which the WAL was checkpointed are left out.
struct Cost {
    micros: f64,
    bytes: f64,
}

/// Writes `n` turns to a session and measures them.
async fn measure_turns(
    product: &Product,
    session_number: usize,
    turns: &mut Turns,
    n: usize,
) -> Result<Cost> {
    let id = session_id(session_number)?;
    let (mut times, mut bytes) = (Vec::new(), Vec::new());
    for request in requests(&turns.next_turns(n))? {
        let (before, call_start) = (bytes_written()?, Instant::now());
        product
            .engine
            .turns
            .start(&product.caller, id.clone(), request)
            .await?;
        times.push(micros(call_start));
        bytes.push((bytes_written()? - before) as f64);
    }
    let checkpoint_bytes = 4.0 * median(bytes.iter().copied());
    bytes.retain(|b| *b <= checkpoint_bytes);
    Ok(Cost {
        micros: median(times),
        bytes: bytes.iter().sum::<f64>() / bytes.len() as f64,
    })
}

/// One cost per run. The fields `…_wide` are the cost of 200 turns, the others that of ten.
#[derive(Default)]
struct RunCosts {
    early: Vec<Cost>,
    late: Vec<Cost>,
    early_wide: Vec<Cost>,
    late_wide: Vec<Cost>,
    /// Of a new session in the store of the old one.
    new_wide: Vec<Cost>,
}

/// Measures early turns of a session, lets it grow to `grown` turns, and measures late turns.
async fn measure_run(setup: &Setup, grown: usize, seed: u64, costs: &mut RunCosts) -> Result<()> {
    let dir = setup.dir()?;
    let product = Product::open(dir.path(), false).await?;
    let mut turns = Turns::new(seed);
    let wide = setup.size(200, 10);
    // The first turn creates the session.
    measure_turns(&product, 0, &mut turns, 1).await?;
    costs
        .early
        .push(measure_turns(&product, 0, &mut turns, 10).await?);
    costs
        .early_wide
        .push(measure_turns(&product, 0, &mut turns, wide).await?);
    for request in requests(&turns.next_turns(grown - 11 - wide))? {
        product
            .engine
            .turns
            .start(&product.caller, session_id(0)?, request)
            .await?;
    }
    costs
        .late
        .push(measure_turns(&product, 0, &mut turns, 10).await?);
    costs
        .late_wide
        .push(measure_turns(&product, 0, &mut turns, wide).await?);
    measure_turns(&product, 1, &mut turns, 1).await?;
    costs
        .new_wide
        .push(measure_turns(&product, 1, &mut turns, wide).await?);
    product.close().await;
    Ok(())
}

/// Compares a metric of late and early costs.
fn compare(
    label: &str,
    late: &[Cost],
    early: &[Cost],
    metric: fn(&Cost) -> f64,
    target: Target,
    unit: &str,
) -> Line {
    let values = |costs: &[Cost]| costs.iter().map(metric).collect::<Vec<_>>();
    let (late, early) = (values(late), values(early));
    let shown = (
        format!("{:.0} {unit}", median(late.iter().copied())),
        format!("{:.0} {unit}", median(early.iter().copied())),
    );
    Line::pairs(label, &late, &early, target, shown)
}

/// `flat`.
pub(crate) async fn flat(setup: &Setup) -> Result<Section> {
    let grown = setup.size(10_000, 100);
    let mut costs = RunCosts::default();
    for pair in 0..setup.pairs {
        measure_run(setup, grown, pair as u64, &mut costs).await?;
    }
    let bytes: fn(&Cost) -> f64 = |c| c.bytes;
    let time: fn(&Cost) -> f64 = |c| c.micros;
    let late = format!("turns {}–{}", grown + 1, grown + 10);
    let mut lines = vec![
        compare(
            &format!("{late} / turns 2–11, bytes"),
            &costs.late,
            &costs.early,
            bytes,
            Target::AtMost(1.1),
            "B",
        ),
        compare(
            &format!("{late} / turns 2–11, time"),
            &costs.late,
            &costs.early,
            time,
            Target::AtMost(1.2),
            "µs",
        ),
        compare(
            "200 late turns / 200 early, bytes",
            &costs.late_wide,
            &costs.early_wide,
            bytes,
            Target::AtMost(1.1),
            "B",
        ),
        compare(
            "200 late turns / 200 early, time",
            &costs.late_wide,
            &costs.early_wide,
            time,
            Target::AtMost(1.2),
            "µs",
        ),
        compare(
            "200 turns of the old session / of a new one in its store, bytes",
            &costs.late_wide,
            &costs.new_wide,
            bytes,
            Target::Shown,
            "B",
        ),
        compare(
            "200 turns of the old session / of a new one in its store, time",
            &costs.late_wide,
            &costs.new_wide,
            time,
            Target::AtMost(1.2),
            "µs",
        ),
    ];
    let memory = memory(setup)?;
    lines.extend(memory_lines(&memory));
    let notes = vec![
        "bytes: mean of wchar of /proc/self/io around each call (WAL frames), without turns in which the WAL was checkpointed; time: median; no anchor".to_owned(),
        "statements are not counted: the ledger does not expose its connection".to_owned(),
        format!("memory, (items, resident kB): writing {:?}, reading {:?}", memory.writing, memory.reading),
    ];
    Ok(Section {
        name: "flat",
        lines,
        notes,
        ..Section::default()
    })
}

/// Resident kB, by number of items.
#[derive(Serialize, Deserialize)]
pub(crate) struct Memory {
    writing: Vec<(usize, u64)>,
    reading: Vec<(usize, u64)>,
}

fn memory_lines(memory: &Memory) -> Vec<Line> {
    let growth = |points: &[(usize, u64)]| match (points.first(), points.last()) {
        (Some(first), Some(last)) => last.1 as f64 / first.1 as f64,
        _ => f64::NAN,
    };
    vec![
        Line::number(
            "resident memory while writing, last / first",
            growth(&memory.writing),
            Target::AtMost(1.2),
            String::new(),
        ),
        Line::number(
            "resident memory while reading, last / first",
            growth(&memory.reading),
            Target::AtMost(1.2),
            String::new(),
        ),
    ]
}

/// Measures memory in a separate process, so that nothing else is counted.
fn memory(setup: &Setup) -> Result<Memory> {
    let mut child = Command::new(std::env::current_exe()?);
    child.args(["child-memory", "--dir"]).arg(&setup.root);
    if setup.quick {
        child.arg("--quick");
    }
    let out = child.output()?;
    ensure!(
        out.status.success(),
        "child-memory: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    Ok(serde_json::from_slice(&out.stdout)?)
}

/// Resident kB of this process.
pub(crate) fn resident_kb() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/status")?;
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix("VmRSS:"))
        .context("no VmRSS in /proc/self/status")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// Writes 100,000 items to one session and reads them back page by page.
pub(crate) async fn memory_child(setup: &Setup) -> Result<Memory> {
    let dir = setup.dir()?;
    let marks = [10_000, 50_000, 100_000].map(|m| setup.size(m, m / 500));
    let product = Product::open(dir.path(), false).await?;
    let mut turns = Turns::new(3);
    let mut memory = Memory {
        writing: Vec::new(),
        reading: Vec::new(),
    };
    let mut items = 0;
    for mark in marks {
        while items < mark {
            product
                .engine
                .turns
                .start(
                    &product.caller,
                    session_id(0)?,
                    turns.next_turn().request()?,
                )
                .await?;
            items += 4;
        }
        memory.writing.push((mark, resident_kb()?));
    }
    let (mut after, mut marks) = (0, marks.into_iter().peekable());
    loop {
        let (page, next) = product
            .engine
            .turns
            .items(&product.caller, &session_id(0)?, after, 500)
            .await?;
        after = page.last().map_or(after, |i| i.seq);
        if let Some(mark) = marks.next_if(|m| after as usize >= *m) {
            memory.reading.push((mark, resident_kb()?));
        }
        if next.is_none() {
            break;
        }
    }
    product.close().await;
    Ok(memory)
}
