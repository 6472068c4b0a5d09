//! `fuzz-decoders`: damaged and random streams of every format, in chunks of every size. For any input, a decoder must
//! not panic, must hold a bounded multiple of its input, and must produce items and drafts that the ledger accepts. The
//! size of the chunks must not change the result.

use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

mod check;
mod corpus;
mod input;

use corpus::Corpus;
use input::Input;

/// The maximum number of findings printed.
const SHOWN: usize = 20;

/// The result of a run.
#[derive(Debug, Default)]
pub(crate) struct Found {
    inputs: u64,
    bytes: u64,
    events: u64,
    items: u64,
    /// The time and number of the slowest input.
    slowest: (Duration, u64),
    findings: Vec<(u64, String)>,
    took: Duration,
}

impl Found {
    fn add(&mut self, other: Self) {
        self.inputs += other.inputs;
        self.bytes += other.bytes;
        self.events += other.events;
        self.items += other.items;
        self.slowest = self.slowest.max(other.slowest);
        self.findings.extend(other.findings);
    }

    /// Fails if anything was found.
    pub(crate) fn into_result(self) -> Result<()> {
        match self.findings.len() {
            0 => Ok(()),
            many => bail!("{many} inputs broke a decoder"),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (time, number) = self.slowest;
        writeln!(
            f,
            "{} inputs, {:.1} MB, {} events, {} items in {:.1} s; the slowest, {number}, took {:.1} ms; {} findings",
            self.inputs,
            self.bytes as f64 / 1e6,
            self.events,
            self.items,
            self.took.as_secs_f64(),
            time.as_secs_f64() * 1e3,
            self.findings.len(),
        )?;
        for (number, what) in self.findings.iter().take(SHOWN) {
            writeln!(f, "input {number}: {what}")?;
        }
        Ok(())
    }
}

/// Runs the inputs with these numbers; an input depends only on the seed and its number.
pub(crate) fn run(seed: u64, numbers: Range<u64>) -> Result<Found> {
    let corpus = Corpus::read()?;
    let start = Instant::now();
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let mut found = Found::default();
    thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..workers)
            .map(|worker| {
                let (corpus, numbers) = (&corpus, numbers.clone());
                scope.spawn(move || one_worker(corpus, seed, numbers.skip(worker).step_by(workers)))
            })
            .collect();
        for worker in workers {
            found.add(worker.join().ok().context("a worker panicked")?);
        }
        Ok(())
    })?;
    found.findings.sort();
    found.took = start.elapsed();
    Ok(found)
}

fn one_worker(corpus: &Corpus, seed: u64, numbers: impl Iterator<Item = u64>) -> Found {
    let mut found = Found::default();
    for number in numbers {
        let input = Input::new(corpus, seed, number);
        let start = Instant::now();
        let seen = catch_unwind(AssertUnwindSafe(|| check::check(&input)));
        found.slowest = found.slowest.max((start.elapsed(), number));
        found.inputs += 1;
        found.bytes += input.bytes.len() as u64;
        match seen {
            Ok(Ok(seen)) => {
                found.events += seen.events;
                found.items += seen.items;
            }
            Ok(Err(error)) => found
                .findings
                .push((number, reported(&input, &format!("{error:#}")))),
            Err(_) => found.findings.push((number, reported(&input, "a panic"))),
        }
    }
    found
}

fn reported(input: &Input, what: &str) -> String {
    let shown = String::from_utf8_lossy(&input.bytes);
    let shown: String = shown.chars().take(600).collect();
    format!("{}: {what}\n{shown}", input.format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_input_breaks_no_decoder() {
        let found = run(20_261_122, 0..20_000).unwrap();
        assert_eq!(found.inputs, 20_000);
        assert!(found.events > 100_000 && found.items > 10_000, "{found}");
        assert!(found.findings.is_empty(), "{found}");
    }
}
