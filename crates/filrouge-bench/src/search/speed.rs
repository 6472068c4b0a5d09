//! `search --speed`: the latency of searches over an index and by a full scan, and the cost of the index.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use filrouge_search::Searcher;
use filrouge_search::feed::{SourceIndex, StepOutcome};
use filrouge_types::{Clock, SystemClock};

use super::corpora::{self, History};
use super::mix::{Class, mix};
use super::searchers::SourceIndexes;
use super::{change, process, searchers};
use crate::Setup;
use crate::report::{Line, Section, Target, progress};
use crate::stats::{Leg, Series, median, micros};

/// Sessions, messages and parts of the smallest history.
const SIZE: [usize; 3] = [400, 8000, 40_000];
/// The same with `--quick`.
const TINY: [usize; 3] = [40, 400, 2000];
/// The number of queries per class that are also run as a plain scan.
const MAX_SCANNED: usize = 6;
/// The number of listed slowest queries.
const MAX_NAMED: usize = 5;
/// The time for which a file can be rewritten without a change of its modification time; younger files are not cached.
const SETTLE_TIME: Duration = Duration::from_millis(2500);

/// The sessions, messages and parts of a history that is `times` as large as the smallest one.
pub(super) fn history_size(setup: &Setup, times: usize) -> [usize; 3] {
    [0, 1, 2].map(|n| times * setup.size(SIZE[n], TINY[n]))
}

/// The name of a history in tables.
pub(super) fn name(history: &History) -> String {
    let parts = history.truth.parts as f64 / 1000.0;
    format!("{} of {parts:.0}k parts", history.form)
}

/// `search --speed`.
pub(super) fn measure(setup: &Setup, times: &[usize], section: &mut Section) -> Result<()> {
    for &times in times {
        for form in ["sqlite", "json"] {
            let dir = setup.dir()?;
            let size = history_size(setup, times);
            progress(format_args!("speed: {form} of {} parts", size[2]));
            let history = History::write(dir.path(), form, size)?;
            let mut bench = Bench {
                setup,
                history: &history,
                section,
            };
            bench.measure(dir.path(), times == 1)?;
            process::measure(setup, &history, section)?;
        }
    }
    Ok(())
}

struct Bench<'a> {
    setup: &'a Setup,
    history: &'a History,
    section: &'a mut Section,
}

impl Bench<'_> {
    fn add_number(&mut self, label: &str, value: f64, target: Target, shown: String) {
        let label = format!("{}: {label}", name(self.history));
        self.section
            .lines
            .push(Line::number(&label, value, target, shown));
    }

    /// Builds an index, and measures it; `is_smaller`: the target for its build applies.
    fn measure(&mut self, dir: &std::path::Path, is_smaller: bool) -> Result<()> {
        let sources = self.history.sources()?;
        let library = corpora::library(sources.clone());
        let build = Instant::now();
        let opened = SourceIndexes::open(&sources, &dir.join("index"))?;
        let indexes = &opened.each;
        for index in indexes {
            index.update(&mut |_| {}, &|| false)?;
        }
        let built = build.elapsed().as_secs_f64();
        let target = if is_smaller {
            Target::AtMost(4.0)
        } else {
            Target::Shown
        };
        self.add_number("first build, s", built, target, format!("{built:.2} s"));
        let tidy = Instant::now();
        for index in indexes {
            while index.tidy()? {}
        }
        let tidied = tidy.elapsed().as_secs_f64();
        self.add_number(
            "tidying after the build, s",
            tidied,
            Target::Shown,
            format!("{tidied:.2} s"),
        );
        self.size(indexes)?;
        let classes = mix(self.setup, self.history, &library)?;
        let scanning = searchers::full_scan(&library);
        let indexed = opened.searcher(&library);
        self.searches(&indexed, &scanning, &classes)?;
        self.changes(indexes, &indexed)
    }

    fn size(&mut self, indexes: &[Arc<SourceIndex>]) -> Result<()> {
        let (mut bytes, mut texts) = (0.0, 0.0);
        for index in indexes {
            let status = index.index().status()?;
            bytes += status.bytes as f64;
            texts += status.text_bytes as f64;
        }
        let shown = format!("{:.1} MB of {:.1} MB", bytes / 1e6, texts / 1e6);
        self.add_number(
            "index / its texts, bytes",
            bytes / texts,
            Target::AtMost(1.0),
            shown,
        );
        Ok(())
    }

    fn searches(
        &mut self,
        indexed: &Searcher,
        scanning: &Searcher,
        classes: &[Class],
    ) -> Result<()> {
        let rounds = self.setup.size(2 + self.setup.pairs, 1);
        let (mut narrow, mut slowest) = (Vec::new(), Vec::new());
        for class in classes {
            // An untimed round warms the caches.
            time_queries(indexed, &class.queries)?;
            let mut durations = Vec::new();
            let start = Instant::now();
            for _ in 0..rounds {
                durations.extend(time_queries(indexed, &class.queries)?);
            }
            let leg = Leg::new(durations.clone(), start.elapsed());
            let few: Vec<String> = class.queries.iter().take(MAX_SCANNED).cloned().collect();
            time_queries(scanning, few.get(..1).unwrap_or_default())?;
            let start = Instant::now();
            let scanned = time_queries(scanning, &few)?;
            let scan = Leg::new(scanned, start.elapsed());
            let target = if class.narrow {
                Target::Shown
            } else {
                Target::AtMost(1.2)
            };
            let label = format!("{}: {}, p50 / a plain scan", name(self.history), class.name);
            let shown = (
                format!("{:.2} ms, p99 {:.2} ms", leg.p50 / 1000.0, leg.p99 / 1000.0),
                format!("{:.1} ms", scan.p50 / 1000.0),
            );
            let line = Line::pairs(&label, &[leg.p50], &[scan.p50], target, shown);
            self.section.lines.push(line);
            let series = format!("{}: {}", name(self.history), class.name);
            let mut series = Series::new(series);
            series.legs.push(leg);
            self.section.series.push(series);
            if class.narrow {
                let of_each = |at| {
                    durations
                        .iter()
                        .skip(at)
                        .step_by(class.queries.len())
                        .copied()
                };
                let queries = class.queries.iter().enumerate();
                slowest.extend(queries.map(|(at, query)| (median(of_each(at)), query)));
                narrow.extend(durations);
            }
        }
        slowest.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let named = slowest.iter().take(MAX_NAMED);
        let named = named.map(|(micros, query)| format!("{query} {:.1} ms", micros / 1000.0));
        let note = named.collect::<Vec<_>>().join(", ");
        let note = format!("{}: the slowest queries: {note}", name(self.history));
        self.section.notes.push(note);
        let all = Leg::new(narrow, Duration::from_secs(1));
        for (label, micros, target) in [("p50", all.p50, 5.0), ("p99", all.p99, 25.0)] {
            let label = format!("words, phrases, regexes with a literal: {label}, ms");
            let millis = micros / 1000.0;
            self.add_number(
                &label,
                millis,
                Target::AtMost(target),
                format!("{millis:.2} ms"),
            );
        }
        Ok(())
    }

    /// Adds messages to the largest session. Measures a search right after a new message, and the time to index another
    /// one without a search.
    fn changes(&mut self, indexes: &[Arc<SourceIndex>], indexed: &Searcher) -> Result<()> {
        let session = self.history.truth.largest.id.clone();
        let (mut found, mut indexing) = (Vec::new(), Vec::new());
        let add = |word: &str| {
            change::add_message(self.history, &session, SystemClock.now().as_millis(), word)?;
            anyhow::Ok(word.to_owned())
        };
        for n in 0..self.setup.size(self.setup.pairs, 1) {
            let word = add(&format!("nouveaute-{n}-{}", "x".repeat(n + 3)))?;
            // An index trusts a listing of its source for a second.
            std::thread::sleep(Duration::from_millis(1100));
            let call_start = Instant::now();
            check_found(indexed, &word, &session)?;
            found.push(micros(call_start) / 1000.0);
            std::thread::sleep(SETTLE_TIME);
            index_all(indexes)?;
            let word = add(&format!("inattendu-{n}-{}", "y".repeat(n + 3)))?;
            std::thread::sleep(SETTLE_TIME);
            let call_start = Instant::now();
            for index in indexes {
                index_one(index)?;
            }
            indexing.push(micros(call_start) / 1000.0);
            index_all(indexes)?;
            check_found(indexed, &word, &session)?;
        }
        let millis = median(found);
        let label = "a search right after one new message, ms";
        self.add_number(label, millis, Target::Shown, format!("{millis:.1} ms"));
        let millis = median(indexing);
        let label = "one new message in the largest session indexed, ms";
        self.add_number(
            label,
            millis,
            Target::AtMost(50.0),
            format!("{millis:.1} ms"),
        );
        Ok(())
    }
}

/// Indexes everything; fails if anything remains to be indexed.
fn index_all(indexes: &[Arc<SourceIndex>]) -> Result<()> {
    for index in indexes {
        index_one(index)?;
        let snapshot = index.snapshot(Duration::ZERO);
        let stale_sessions = snapshot.stale.len();
        ensure!(
            stale_sessions == 0,
            "{stale_sessions} sessions are not indexed"
        );
    }
    Ok(())
}

/// Indexes everything of one source.
fn index_one(index: &SourceIndex) -> Result<()> {
    for _ in 0..20 {
        match index.step(&|| false)? {
            StepOutcome::Done(0) | StepOutcome::Idle => return Ok(()),
            StepOutcome::Done(_) => {}
            StepOutcome::Locked => anyhow::bail!("another process feeds the index"),
        }
    }
    anyhow::bail!("the index did not catch up in 20 steps")
}

/// Checks that a word is found in this session alone.
fn check_found(searcher: &Searcher, word: &str, session: &str) -> Result<()> {
    let found = searchers::search(searcher, &searchers::words_request(word, 5))?;
    let found: Vec<_> = found
        .sessions
        .iter()
        .map(|hit| hit.session.id.as_str())
        .collect();
    ensure!(found == [session], "{word:?}: {found:?}");
    Ok(())
}

/// The duration of each query, µs, for a page of 20 results with excerpts.
pub(super) fn time_queries(searcher: &Searcher, queries: &[String]) -> Result<Vec<f64>> {
    let mut durations = Vec::with_capacity(queries.len());
    for query in queries {
        let request = searchers::words_request(query, 20);
        let call_start = Instant::now();
        searchers::search(searcher, &request)?;
        durations.push(micros(call_start));
    }
    Ok(durations)
}
