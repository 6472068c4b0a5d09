//! `projections --part search`: searches of a ledger through OpenSearch, compared with the embedded index and with a
//! scan of everything.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use filrouge_opensearch::client::{Credentials, Endpoint};
use filrouge_opensearch::text_index::{IndexSettings, OpenSearchIndex};
use filrouge_search::ledger::LedgerFeed;
use filrouge_search::{LedgerSearch, SearchRequest, Searcher};
use filrouge_sources::{Library, Role};
use tokio::runtime::Handle;

use super::corpora::{self, History};
use super::imported::{self, operator};
use super::judged::{JudgedCorpus, Kind, queries};
use super::ledger::{IndexedEngine, narrowed_queries};
use super::mix::{Class, mix};
use super::recall::all_pages;
use super::searchers::{self, open_ledger_index, words_request};
use super::speed::time_queries;
use crate::Setup;
use crate::product::Product;
use crate::report::{Line, Section, Target, progress};
use crate::stats::quantiles;

/// The greatest median of a search through OpenSearch, in ms.
const MEDIAN_BAR: f64 = 15.0;
/// Sessions on a page: the maximum, because each page of a scan reads everything again.
const PAGE: usize = 500;
/// The number of words that are combined with each filter.
const FILTERED_WORDS: usize = 4;
/// The number of queries that are timed as a scan.
const SCANNED: usize = 20;
/// The time limit of a request to OpenSearch.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Requests of one kind.
struct Requests {
    kind: &'static str,
    requests: Vec<SearchRequest>,
}

/// A ledger, and searchers of it.
struct Searchers {
    opensearch: Searcher,
    embedded: Searcher,
    scan: Searcher,
}

/// Measures searches of a history of `parts` parts through the OpenSearch server at `url`. Of each kind, `compared`
/// queries are compared with a scan.
pub(crate) async fn measure(
    setup: &Setup,
    url: &str,
    (parts, compared): (usize, usize),
    section: &mut Section,
) -> Result<()> {
    let dir = setup.dir()?;
    progress(format_args!("search: a history of {parts} parts"));
    let (library, classes) = tokio::task::block_in_place(|| history(setup, dir.path(), parts))?;
    let product = Product::open(dir.path(), true).await?;
    imported::import(&product, &library).await?;
    drop(library);
    let searchers = open_searchers(&product, dir.path(), url, section).await?;
    tokio::task::block_in_place(|| {
        for kind in requests(&searchers.scan, &classes)? {
            compare(&searchers, &kind, compared, section)?;
        }
        measure_speed(setup, &searchers, &narrowed_queries(&classes), section)
    })?;
    drop(searchers);
    product.close().await;
    Ok(())
}

/// A generated history, the invented and the genuine conversations; and queries of the history.
fn history(setup: &Setup, dir: &Path, parts: usize) -> Result<(Library, Vec<Class>)> {
    let size = [(parts / 100).max(40), parts / 5, parts];
    let history = History::write(dir, "sqlite", size)?;
    let mut sources = history.sources()?;
    let classes = mix(setup, &history, &corpora::library(sources.clone()))?;
    for corpus in [JudgedCorpus::Made, JudgedCorpus::Genuine] {
        sources.extend(corpora::sources(corpus, dir)?);
    }
    Ok((corpora::library(sources), classes))
}

/// Builds both indexes.
async fn open_searchers(
    product: &Product,
    dir: &Path,
    url: &str,
    section: &mut Section,
) -> Result<Searchers> {
    let settings = IndexSettings {
        endpoint: Endpoint {
            url: url.to_owned(),
            credentials: Credentials::Anonymous,
            timeout: TIMEOUT,
        },
        authorities: None,
        // A server of the tests may have the index of another process.
        prefix: format!("bench-{}", std::process::id()),
    };
    let opensearch = OpenSearchIndex::new(&settings, Handle::current())?;
    let opensearch = IndexedEngine::new(product, Arc::new(opensearch));
    let index = open_ledger_index(product.ledger.as_ref(), dir)?;
    let embedded = IndexedEngine::new(product, index);
    for (name, engine) in [("OpenSearch", &opensearch), ("embedded", &embedded)] {
        progress(format_args!("search: the index, {name}"));
        let start = Instant::now();
        engine.catch_up().await?;
        let seconds = start.elapsed().as_secs_f64();
        section.notes.push(format!(
            "search: the index ({name}) was built in {seconds:.1} s"
        ));
    }
    let engine = product.engine.clone();
    let scan = LedgerSearch::new(
        engine,
        None::<Arc<LedgerFeed>>,
        operator(),
        Handle::current(),
    );
    Ok(Searchers {
        opensearch: opensearch.searcher(operator()),
        embedded: embedded.searcher(operator()),
        scan: Searcher::new(Library::new(Vec::new(), 0)).with_ledger(scan),
    })
}

/// The requests that are compared with a scan: words, phrases, parts of words, regular expressions, filters, times.
fn requests(scan: &Searcher, classes: &[Class]) -> Result<Vec<Requests>> {
    let mut all = Vec::new();
    // A tiny history may lack some kinds.
    for class in classes.iter().filter(|class| !class.queries.is_empty()) {
        let queries = class.queries.iter();
        all.push(Requests {
            kind: class.name,
            requests: queries.map(|query| words_request(query, PAGE)).collect(),
        });
    }
    let is_literal = |kind| !matches!(kind, Kind::Memory | Kind::Paraphrase | Kind::Question);
    let judged = queries()?.into_iter().filter(|query| {
        let corpora = [JudgedCorpus::Made, JudgedCorpus::Genuine];
        is_literal(query.kind) && corpora.contains(&query.corpus)
    });
    all.push(Requests {
        kind: "queries of invented and genuine conversations",
        requests: judged
            .map(|query| words_request(&query.text, PAGE))
            .collect(),
    });
    let words = classes.iter().find(|class| class.name == "common words");
    let words = words.context("no common words")?.queries.iter();
    let words: Vec<SearchRequest> = words
        .take(FILTERED_WORDS)
        .map(|word| words_request(word, PAGE))
        .collect();
    all.extend(filtered(scan, &words)?);
    Ok(all)
}

/// The words with filters, and with times.
fn filtered(scan: &Searcher, words: &[SearchRequest]) -> Result<[Requests; 2]> {
    let found = words.first().context("no common words")?;
    let found = searchers::search(scan, found)?;
    let first = found.sessions.first().context("no session has the word")?;
    let excerpts = found.sessions.iter().flat_map(|hit| &hit.excerpts);
    let mut times: Vec<i64> = excerpts.filter_map(|excerpt| excerpt.created).collect();
    times.sort_unstable();
    let (mut filters, mut dates) = (Vec::new(), Vec::new());
    for words in words {
        let with = |change: &dyn Fn(&mut SearchRequest)| {
            let mut request = words.clone();
            change(&mut request);
            request
        };
        filters.extend([
            with(&|request| request.role = Some(Role::User)),
            with(&|request| request.role = Some(Role::Assistant)),
            with(&|request| request.tool = Some("bash".to_owned())),
            with(&|request| request.agent = Some("build".to_owned())),
            with(&|request| request.project_id.clone_from(&first.session.project_id)),
        ]);
        for quarter in 1..=3 {
            let time = times.get(times.len() * quarter / 4);
            let time = *time.context("no match has a time")?;
            dates.push(with(&|request| request.since = Some(time)));
            dates.push(with(&|request| request.until = Some(time)));
        }
    }
    let requests = |kind, requests| Requests { kind, requests };
    Ok([
        requests("words with filters", filters),
        requests("words with times", dates),
    ])
}

/// Compares results through OpenSearch with those of a scan.
fn compare(
    searchers: &Searchers,
    kind: &Requests,
    compared: usize,
    section: &mut Section,
) -> Result<()> {
    progress(format_args!("search: recall of {}", kind.kind));
    let step = kind.requests.len().div_ceil(compared.max(1)).max(1);
    let (mut queries, mut same) = (0_u32, 0_u32);
    for request in kind.requests.iter().step_by(step) {
        let found = all_pages(&searchers.opensearch, request.clone());
        let found = found.with_context(|| request.query.clone())?;
        ensure!(found.indexed, "{}: the index was not used", request.query);
        let scanned = all_pages(&searchers.scan, request.clone())?;
        let scanned = scanned.sessions.into_iter().map(|(id, (n, _))| (id, n));
        let scanned: BTreeMap<String, usize> = scanned.collect();
        queries += 1;
        if found.are_those_of(&scanned) {
            same += 1;
        } else {
            section.notes.push(format!(
                "{}: {request:?}: {} sessions instead of {}, or other numbers of matches",
                kind.kind,
                found.sessions.len(),
                scanned.len()
            ));
        }
    }
    section.lines.push(Line::number(
        &format!("OpenSearch: {}: answered like a scan", kind.kind),
        f64::from(same) / f64::from(queries),
        Target::AtLeast(1.0),
        format!("{same} of {queries}"),
    ));
    Ok(())
}

/// Measures the latency of searches for a page of 20 sessions with excerpts.
fn measure_speed(
    setup: &Setup,
    searchers: &Searchers,
    queries: &[String],
    section: &mut Section,
) -> Result<()> {
    let mut measured = Vec::new();
    for (name, searcher) in [
        ("OpenSearch", &searchers.opensearch),
        ("embedded", &searchers.embedded),
    ] {
        progress(format_args!("search: latency, {name}"));
        // An untimed round warms the caches.
        time_queries(searcher, queries)?;
        let mut latencies = Vec::new();
        for _ in 0..setup.size(2 + setup.pairs, 1) {
            latencies.extend(time_queries(searcher, queries)?);
        }
        measured.push(in_millis(latencies));
    }
    progress("search: latency, a scan");
    let step = queries.len().div_ceil(SCANNED).max(1);
    let few: Vec<String> = queries.iter().step_by(step).cloned().collect();
    let scanned = in_millis(time_queries(&searchers.scan, &few)?);
    let [opensearch, embedded] = measured[..] else {
        anyhow::bail!("two indexes were measured");
    };
    for (label, at, target) in [
        ("p50", 0, Target::AtMost(MEDIAN_BAR)),
        ("p95", 1, Target::Shown),
    ] {
        let what = format!("OpenSearch: words, phrases, regexes with a literal: {label}, ms");
        let shown = format!("{:.2} ms", opensearch[at]);
        let line = Line::number(&what, opensearch[at], target, shown);
        section.lines.push(Line {
            limit: format!(
                "{:.2} ms: embedded index; {:.1} ms: scan",
                embedded[at], scanned[at]
            ),
            ..line
        });
    }
    Ok(())
}

/// The median and the 95th percentile, in ms.
fn in_millis(micros: Vec<f64>) -> [f64; 2] {
    quantiles(micros, [0.5, 0.95]).map(|micros| micros / 1000.0)
}
