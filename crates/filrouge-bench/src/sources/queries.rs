//! The library's queries in this process: the first call on an open history, calls on a newly opened one (cold), and
//! repeated calls (warm).

use std::time::Instant;

use anyhow::{Result, ensure};
use filrouge_search::{Results, SearchRequest, Searcher};
use filrouge_sources::Library;
use filrouge_sources::library::{history, list, stats};

use super::{GeneratedHistory, limit};
use crate::Setup;
use crate::report::{Line, Section, Target};
use crate::stats::{median, micros};

/// The median time of a query that runs `times` times, in milliseconds.
fn median_ms(times: usize, mut query: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut durations = Vec::new();
    for _ in 0..times.max(1) {
        let call_start = Instant::now();
        query()?;
        durations.push(micros(call_start) / 1000.0);
    }
    Ok(median(durations))
}

struct Bench<'a> {
    history: &'a GeneratedHistory,
    times: usize,
    section: &'a mut Section,
}

pub(super) fn measure(
    setup: &Setup,
    history: &GeneratedHistory,
    section: &mut Section,
) -> Result<()> {
    let library = history.library()?;
    let mut bench = Bench {
        history,
        times: setup.size(5 * setup.pairs, 1),
        section,
    };
    bench.lists(&library)?;
    bench.histories(&library)?;
    bench.statistics(&library)?;
    bench.searches(&library)
}

impl Bench<'_> {
    fn add_number(&mut self, label: &str, millis: f64, target: Target) {
        let label = format!("{}: {label}, ms", self.history.form);
        let shown = format!("{millis:.2} ms");
        self.section
            .lines
            .push(Line::number(&label, millis, target, shown));
    }

    fn add_comparison(
        &mut self,
        label: &str,
        product: f64,
        other: f64,
        name: &str,
        target: Target,
    ) {
        let label = format!("{}: {label}", self.history.form);
        let shown = (format!("{product:.1} ms"), format!("{other:.1} ms: {name}"));
        self.section
            .lines
            .push(Line::pairs(&label, &[product], &[other], target, shown));
    }

    fn lists(&mut self, library: &Library) -> Result<()> {
        let all = self.history.truth.sessions;
        let started_at = Instant::now();
        let first = list::list(library, &list::ListRequest::default())?;
        self.add_number("list 50, first", micros(started_at) / 1000.0, Target::Shown);
        ensure!(first.total == all, "{} sessions of {all}", first.total);
        let warm = median_ms(self.times, || {
            list::list(library, &list::ListRequest::default())?;
            Ok(())
        })?;
        self.add_number("list 50, warm", warm, Target::AtMost(5.0));
        Ok(())
    }

    /// The largest session: one page of it, and all of it, each read repeatedly.
    fn histories(&mut self, library: &Library) -> Result<()> {
        let largest = &self.history.truth.largest;
        let page = history::HistoryRequest::new(&*largest.id);
        let complete = history::HistoryRequest {
            max_chars: usize::MAX,
            ..page.clone()
        };
        // A new library each time, so that no conversation is cached.
        let cold = median_ms(self.times, || {
            let library = self.history.library()?;
            history::history(&library, &page)?;
            Ok(())
        })?;
        let all = median_ms(self.times, || {
            let library = self.history.library()?;
            let read = history::history(&library, &complete)?;
            ensure!(
                read.messages.len() == largest.messages,
                "the session is incomplete"
            );
            Ok(())
        })?;
        let warm = median_ms(self.times, || {
            history::history(library, &page)?;
            Ok(())
        })?;
        self.add_number("largest session, a page, cold", cold, Target::AtMost(10.0));
        self.add_number("largest session, all, cold", all, Target::AtMost(25.0));
        self.add_number("largest session, a page, warm", warm, Target::Shown);
        if self.history.form == "sqlite" {
            let db = limit::open(&self.history.root)?;
            let id = &self.history.truth.largest.id;
            let rows = median_ms(self.times, || {
                ensure!(limit::read_rows(&db, id)? > 0, "no rows");
                Ok(())
            })?;
            self.add_comparison(
                "largest session, all",
                all,
                rows,
                "its rows as bytes",
                Target::Shown,
            );
        }
        Ok(())
    }

    fn statistics(&mut self, library: &Library) -> Result<()> {
        let request = list::ListRequest::default();
        let started_at = Instant::now();
        let all = stats::overview(library, &request)?.all;
        self.add_number(
            "statistics, first",
            micros(started_at) / 1000.0,
            Target::Shown,
        );
        let truth = &self.history.truth;
        let counted = (all.message_count, all.part_count);
        ensure!(counted == (truth.messages, truth.parts), "{counted:?}");
        let warm = median_ms(self.times, || {
            stats::overview(library, &request)?;
            Ok(())
        })?;
        self.add_number("statistics of everything, warm", warm, Target::AtMost(15.0));
        Ok(())
    }

    fn searches(&mut self, library: &Library) -> Result<()> {
        let truth = &self.history.truth;
        for (needle, planted) in &truth.needles {
            let found = search(library, &search_request(needle, 500))?;
            let mut ids: Vec<_> = found.sessions.iter().map(|h| &h.session.id).collect();
            let mut planted: Vec<_> = planted.iter().collect();
            ids.sort();
            planted.sort();
            planted.dedup();
            ensure!(
                ids == planted,
                "{needle:?}: found in {ids:?} instead of {planted:?}"
            );
        }
        let rare = truth.needles.keys().next().cloned().unwrap_or_default();
        let common = truth.common_word.clone();
        self.search(library, "a rare text", &format!("\"{rare}\""), &rare, false)?;
        self.search(library, "a common word", &common, &common, false)?;
        let regex = r"fn \w+_parser\(";
        self.search(library, "a regex", &format!("/{regex}/"), regex, true)
    }

    fn search(
        &mut self,
        library: &Library,
        label: &str,
        query: &str,
        plain: &str,
        regex: bool,
    ) -> Result<()> {
        let request = search_request(query, 20);
        let product = median_ms(self.times, || {
            search(library, &request)?;
            Ok(())
        })?;
        let root = &self.history.root;
        let label = format!("search of {label}");
        if self.history.form == "json" {
            let other = median_ms(self.times, || {
                limit::ripgrep(root, plain, regex)?;
                Ok(())
            })?;
            self.add_comparison(&label, product, other, "ripgrep", Target::AtMost(1.0));
        } else if regex {
            self.add_number(&label, product, Target::Shown);
        } else {
            let db = limit::open(root)?;
            let other = median_ms(self.times, || {
                limit::count_like(&db, plain)?;
                Ok(())
            })?;
            self.add_comparison(&label, product, other, "LIKE", Target::AtMost(1.5));
        }
        Ok(())
    }
}

fn search(library: &Library, request: &SearchRequest) -> Result<Results> {
    Ok(Searcher::new(library.clone()).search(request, &|| false)?)
}

fn search_request(query: &str, limit: usize) -> SearchRequest {
    SearchRequest {
        query: query.to_owned(),
        limit,
        ..SearchRequest::default()
    }
}
