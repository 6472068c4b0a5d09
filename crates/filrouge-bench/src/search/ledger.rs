//! `search --ledger`: the same histories in a ledger. Searches in process and over HTTP, and the cost of a feed for
//! concurrent appends.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use filrouge_engine::{Caller, Engine, Settings};
use filrouge_search::ledger::LedgerFeed;
use filrouge_search::{LedgerSearch, Searcher};
use filrouge_sources::Library;
use filrouge_store::OsEntropy;
use filrouge_store::text_index::TextIndex;
use filrouge_types::SystemClock;
use tokio::runtime::Handle;

use super::corpora::{self, History};
use super::imported::{self, operator};
use super::mix::{Class, mix};
use super::searchers::{self, open_ledger_index};
use super::{appends, speed};
use crate::Setup;
use crate::http::{Server, binary};
use crate::load::HttpClient;
use crate::product::Product;
use crate::report::{Line, Section, Target, progress};
use crate::stats::{Leg, Series};

/// The time limit for an index to catch up, and for a server to become idle.
const TIMEOUT: Duration = Duration::from_secs(600);

/// `search --ledger`.
pub(super) async fn measure(setup: &Setup, times: &[usize], section: &mut Section) -> Result<()> {
    for &times in times {
        let dir = setup.dir()?;
        let size = speed::history_size(setup, times);
        progress(format_args!("ledger: a history of {} parts", size[2]));
        let (history, library, classes) = tokio::task::block_in_place(|| {
            let history = History::write(dir.path(), "sqlite", size)?;
            let library = corpora::library(history.sources()?);
            let classes = mix(setup, &history, &library)?;
            anyhow::Ok((history, library, classes))
        })?;
        let product = Product::open(dir.path(), true).await?;
        let start = Instant::now();
        imported::import(&product, &library).await?;
        section.notes.push(format!(
            "ledger: {} parts imported in {:.1} s",
            history.truth.parts,
            start.elapsed().as_secs_f64()
        ));
        let name = format!(
            "ledger of {:.0}k parts",
            history.truth.parts as f64 / 1000.0
        );
        let mut bench = Bench {
            setup,
            name,
            history: &history,
            section,
        };
        bench.in_process(product, dir.path(), &classes).await?;
        bench.over_http(dir, &classes).await?;
    }
    measure_appends(setup, section).await
}

/// Measures appends to two separate stores, of which one has an index.
async fn measure_appends(setup: &Setup, section: &mut Section) -> Result<()> {
    let dirs = [setup.dir()?, setup.dir()?];
    let fed = Product::open(dirs[0].path(), true).await?;
    let unfed = Product::open(dirs[1].path(), true).await?;
    let index = open_ledger_index(fed.ledger.as_ref(), dirs[0].path())?;
    let indexed = IndexedEngine::new(&fed, index);
    appends::measure(setup, "ledger", [&fed, &unfed], &indexed, section).await?;
    fed.close().await;
    unfed.close().await;
    Ok(())
}

struct Bench<'a> {
    setup: &'a Setup,
    name: String,
    history: &'a History,
    section: &'a mut Section,
}

/// An engine with an index and its feed, over an open store.
pub(crate) struct IndexedEngine {
    pub(super) engine: Arc<Engine>,
    pub(super) feed: Arc<LedgerFeed>,
}

impl IndexedEngine {
    pub(crate) fn new(product: &Product, index: Arc<dyn TextIndex>) -> Self {
        let engine = Engine::new(
            product.ledger.clone(),
            Arc::new(OsEntropy),
            Arc::new(SystemClock),
            Settings::default(),
        );
        let engine = Arc::new(engine.with_index(index.clone()));
        let feed = LedgerFeed::new(engine.clone(), index, Arc::new(SystemClock));
        Self {
            engine,
            feed: Arc::new(feed),
        }
    }

    /// A searcher of the ledger's sessions that this caller may see.
    pub(crate) fn searcher(&self, caller: Caller) -> Searcher {
        let feed = self.feed.clone();
        let search = LedgerSearch::new(self.engine.clone(), feed, caller, Handle::current());
        Searcher::new(Library::new(Vec::new(), 0)).with_ledger(search)
    }

    /// Runs the feed until the index is complete.
    pub(crate) async fn catch_up(&self) -> Result<()> {
        let progress = self.feed.catch_up(TIMEOUT, &|| false).await?;
        ensure!(
            progress.done,
            "the index is {} commits behind",
            progress.lag_commits
        );
        Ok(())
    }
}

impl Bench<'_> {
    fn add_number(&mut self, label: &str, value: f64, target: Target, shown: String) {
        let label = format!("{}: {label}", self.name);
        self.section
            .lines
            .push(Line::number(&label, value, target, shown));
    }

    /// Measures the index and searches in this process.
    async fn in_process(&mut self, product: Product, dir: &Path, classes: &[Class]) -> Result<()> {
        progress(format_args!("{}: in process", self.name));
        let index = open_ledger_index(product.ledger.as_ref(), dir)?;
        let indexed = IndexedEngine::new(&product, index);
        let start = Instant::now();
        indexed.catch_up().await?;
        let built = start.elapsed().as_secs_f64();
        self.add_number(
            "first build, s",
            built,
            Target::Shown,
            format!("{built:.2} s"),
        );
        let index = indexed.feed.index();
        while tokio::task::block_in_place(|| index.tidy())? {}
        let status = tokio::task::block_in_place(|| index.status())?;
        let (bytes, texts) = (status.bytes as f64, status.text_bytes as f64);
        let shown = format!("{:.1} MB of {:.1} MB", bytes / 1e6, texts / 1e6);
        self.add_number(
            "index / its texts, bytes",
            bytes / texts,
            Target::AtMost(0.6),
            shown,
        );
        let searcher = indexed.searcher(operator());
        tokio::task::block_in_place(|| self.searches(&searcher, classes))?;
        product.close().await;
        Ok(())
    }

    /// Checks that a needle was found in exactly the sessions in which it was planted.
    fn check_needle(&self, found: &[&str], needle: &str) -> Result<()> {
        let planted = self
            .history
            .truth
            .needles
            .get(needle)
            .context("no such needle")?;
        let mut planted: Vec<&str> = planted.iter().map(String::as_str).collect();
        let mut found = found.to_vec();
        planted.sort_unstable();
        found.sort_unstable();
        ensure!(
            found == planted,
            "{needle:?}: found in {} sessions, planted in {}",
            found.len(),
            planted.len()
        );
        Ok(())
    }

    fn searches(&mut self, searcher: &Searcher, classes: &[Class]) -> Result<()> {
        for needle in self.history.truth.needles.keys() {
            let found = searchers::search(searcher, &searchers::words_request(needle, 500))?;
            let ids: Vec<&str> = found
                .sessions
                .iter()
                .map(|hit| hit.session.id.as_str())
                .collect();
            self.check_needle(&ids, needle)?;
        }
        let queries: Vec<String> = narrowed_queries(classes);
        speed::time_queries(searcher, &queries)?;
        let (mut latencies, start) = (Vec::new(), Instant::now());
        for _ in 0..self.setup.size(2 + self.setup.pairs, 1) {
            latencies.extend(speed::time_queries(searcher, &queries)?);
        }
        self.add_latencies("searches in process", latencies, start.elapsed());
        Ok(())
    }

    fn add_latencies(&mut self, label: &str, latencies: Vec<f64>, wall_time: Duration) {
        let leg = Leg::new(latencies, wall_time);
        for (quantile, micros, target) in [("p50", leg.p50, 5.0), ("p99", leg.p99, 25.0)] {
            let millis = micros / 1000.0;
            let label = format!("{label}: words, phrases, regexes with a literal: {quantile}, ms");
            self.add_number(
                &label,
                millis,
                Target::AtMost(target),
                format!("{millis:.2} ms"),
            );
        }
        let mut series = Series::new(format!("{}: {label}", self.name));
        series.legs.push(leg);
        self.section.series.push(series);
    }

    /// Measures searches over HTTP of a separate server, which uses the same index.
    async fn over_http(&mut self, dir: tempfile::TempDir, classes: &[Class]) -> Result<()> {
        progress(format_args!("{}: over HTTP", self.name));
        let store = format!("sqlite:{}", dir.path().join("filrouge.db").display());
        let server = Server::start_on(&binary(self.setup)?, dir, &store)?;
        let mut http = HttpClient::connect(&server.address).await?;
        let start = Instant::now();
        for (needle, planted) in &self.history.truth.needles {
            while !finds_all(&mut http, needle, planted.len()).await? {
                ensure!(
                    start.elapsed() < TIMEOUT,
                    "{needle:?} was not found in all its sessions in time"
                );
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
        }
        wait_until_idle(&server).await?;
        let queries = narrowed_queries(classes);
        for query in &queries {
            search_over_http(&mut http, query, 20).await?;
        }
        let (mut latencies, start) = (Vec::new(), Instant::now());
        for _ in 0..self.setup.size(2 + self.setup.pairs, 1) {
            for query in &queries {
                latencies.push(search_over_http(&mut http, query, 20).await?);
            }
        }
        self.add_latencies("searches over HTTP", latencies, start.elapsed());
        Ok(())
    }
}

/// Waits until a server uses hardly any CPU time.
async fn wait_until_idle(server: &Server) -> Result<()> {
    let start = Instant::now();
    let mut before = server.cpu_seconds()?;
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = server.cpu_seconds()?;
        if now - before < 0.05 {
            return Ok(());
        }
        ensure!(
            start.elapsed() < TIMEOUT,
            "the server did not become idle in time"
        );
        before = now;
    }
}

/// The queries that an index narrows.
pub(super) fn narrowed_queries(classes: &[Class]) -> Vec<String> {
    let narrow = classes.iter().filter(|class| class.narrow);
    narrow
        .flat_map(|class| class.queries.iter().cloned())
        .collect()
}

/// Searches over HTTP; returns the duration in µs. The response is in the client afterwards.
async fn search_over_http(http: &mut HttpClient, query: &str, limit: usize) -> Result<f64> {
    let query = percent_encoded(query);
    let path = format!("/api/v1/search?q={query}&limit={limit}");
    let request = http.request("GET", &path, "");
    http.send(&request).await
}

/// Whether the server finds `needle` in this many sessions.
async fn finds_all(http: &mut HttpClient, needle: &str, sessions: usize) -> Result<bool> {
    search_over_http(http, needle, 1).await?;
    let page: serde_json::Value = serde_json::from_slice(http.body())?;
    Ok(page["total_sessions"] == sessions)
}

/// Percent-encodes a text for a query string.
fn percent_encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
