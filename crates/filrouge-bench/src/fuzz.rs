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

/// The maximum number of printed findings.
const MAX_PRINTED: usize = 20;

/// The result of a run.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    inputs: u64,
    bytes: u64,
    events: u64,
    items: u64,
    /// The time and number of the slowest input.
    slowest: (Duration, u64),
    /// The number of each input that broke a decoder, and the problem.
    findings: Vec<(u64, String)>,
    elapsed: Duration,
}

impl Outcome {
    /// Adds the outcome of another worker.
    fn add(&mut self, other: Self) {
        self.inputs += other.inputs;
        self.bytes += other.bytes;
        self.events += other.events;
        self.items += other.items;
        self.slowest = self.slowest.max(other.slowest);
        self.findings.extend(other.findings);
    }

    /// Fails if an input broke a decoder.
    pub(crate) fn into_result(self) -> Result<()> {
        match self.findings.len() {
            0 => Ok(()),
            count => bail!("{count} inputs broke a decoder"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (time, number) = self.slowest;
        writeln!(
            f,
            "{} inputs, {:.1} MB, {} events, {} items in {:.1} s; the slowest, {number}, took {:.1} ms; {} findings",
            self.inputs,
            self.bytes as f64 / 1e6,
            self.events,
            self.items,
            self.elapsed.as_secs_f64(),
            time.as_secs_f64() * 1e3,
            self.findings.len(),
        )?;
        for (number, problem) in self.findings.iter().take(MAX_PRINTED) {
            writeln!(f, "input {number}: {problem}")?;
        }
        Ok(())
    }
}

/// Runs the inputs with these numbers; an input depends only on the seed and its number.
pub(crate) fn run(seed: u64, numbers: Range<u64>) -> Result<Outcome> {
    let corpus = Corpus::read()?;
    let start = Instant::now();
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let mut outcome = Outcome::default();
    thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..workers)
            .map(|worker| {
                let (corpus, numbers) = (&corpus, numbers.clone());
                scope.spawn(move || run_inputs(corpus, seed, numbers.skip(worker).step_by(workers)))
            })
            .collect();
        for worker in workers {
            outcome.add(worker.join().ok().context("a worker panicked")?);
        }
        Ok(())
    })?;
    outcome.findings.sort();
    outcome.elapsed = start.elapsed();
    Ok(outcome)
}

/// Checks inputs on one thread.
fn run_inputs(corpus: &Corpus, seed: u64, numbers: impl Iterator<Item = u64>) -> Outcome {
    let mut outcome = Outcome::default();
    for number in numbers {
        let input = Input::new(corpus, seed, number);
        let start = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| check::check(&input)));
        outcome.slowest = outcome.slowest.max((start.elapsed(), number));
        outcome.inputs += 1;
        outcome.bytes += input.bytes.len() as u64;
        match result {
            Ok(Ok(counts)) => {
                outcome.events += counts.events;
                outcome.items += counts.items;
            }
            Ok(Err(error)) => outcome
                .findings
                .push((number, describe_finding(&input, &format!("{error:#}")))),
            Err(_) => outcome
                .findings
                .push((number, describe_finding(&input, "a panic"))),
        }
    }
    outcome
}

/// The text of a finding, with the beginning of the input.
fn describe_finding(input: &Input, problem: &str) -> String {
    let beginning = String::from_utf8_lossy(&input.bytes);
    let beginning: String = beginning.chars().take(600).collect();
    format!("{}: {problem}\n{beginning}", input.format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_input_breaks_no_decoder() {
        // Any seed, as long as it stays the same.
        let outcome = run(20_261_122, 0..20_000).unwrap();
        assert_eq!(outcome.inputs, 20_000);
        assert!(
            outcome.events > 100_000 && outcome.items > 10_000,
            "{outcome}"
        );
        assert!(outcome.findings.is_empty(), "{outcome}");
    }
}
