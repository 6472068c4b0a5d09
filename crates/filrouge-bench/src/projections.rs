//! `projections`: the ledger's items projected into each kind of target, the cost for appends, and what is found
//! through OpenSearch and Weaviate. See docs/bench-projections.md.

mod appends;
mod fill;
mod place;
mod recorded;
mod similar;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use filrouge_testbed::OpenSearch;

use crate::Setup;
use crate::report::{Section, progress};
use crate::search::engines;
use place::{Place, PlaceKind};
use recorded::RecordedLedger;

/// A part of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Items projected a second
    Fill,
    /// The latency of appends, with and without a projection that is behind
    Appends,
    /// Searches with the index in OpenSearch: recall and latency
    Search,
    /// Similar questions through Weaviate: recall and latency
    Similar,
}

/// What is measured, and how much.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(crate) struct Options {
    /// Run only these parts
    #[arg(long, value_delimiter = ',')]
    part: Vec<Part>,
    /// Use only these targets
    #[arg(long, value_delimiter = ',')]
    target: Vec<PlaceKind>,
    /// The number of items in the projected ledger, four for each turn
    #[arg(long, default_value_t = 100_000)]
    items: usize,
    /// The number of parts in the history that is searched
    #[arg(long, default_value_t = 40_000)]
    history_parts: usize,
    /// The largest number of queries of each kind that are compared with a scan of the ledger
    #[arg(long, default_value_t = 20)]
    queries: usize,
    /// The folder where OpenSearch and Weaviate are installed [default: `tmp` in the build folder, as for the tests]
    #[arg(long, value_name = "DIR")]
    servers: Option<PathBuf>,
}

impl Options {
    fn has(&self, part: Part) -> bool {
        self.part.is_empty() || self.part.contains(&part)
    }

    fn has_target(&self, kind: PlaceKind) -> bool {
        self.target.is_empty() || self.target.contains(&kind)
    }

    /// The folder of the servers.
    fn servers(&self) -> Result<PathBuf> {
        if let Some(folder) = &self.servers {
            return Ok(folder.clone());
        }
        let program = std::env::current_exe()?;
        let build = program.parent().and_then(Path::parent);
        Ok(build.context("no build folder")?.join("tmp"))
    }
}

/// `projections`.
pub(crate) async fn projections(setup: &Setup, options: &Options) -> Result<Section> {
    let mut section = Section::new("projections");
    let cores = std::thread::available_parallelism()?;
    section.notes.push(format!(
        "{cores} cores for filrouge and for the server of the target"
    ));
    let servers = options.servers()?;
    let mut parts = [Part::Fill, Part::Appends, Part::Similar].into_iter();
    if parts.any(|part| options.has(part)) {
        measure_ledger(setup, options, &servers, &mut section).await?;
    }
    if options.has(Part::Search) && options.has_target(PlaceKind::Opensearch) {
        match tokio::task::block_in_place(|| OpenSearch::shared(&servers)) {
            Ok(server) => {
                let size = (setup.size(options.history_parts, 2_000), options.queries);
                engines::measure(setup, &server.url(), size, &mut section).await?;
            }
            Err(why) => section
                .notes
                .push(format!("search was not measured: {}", why.0)),
        }
    }
    Ok(section)
}

/// Measures the parts that use the ledger of generated turns.
async fn measure_ledger(
    setup: &Setup,
    options: &Options,
    servers: &Path,
    section: &mut Section,
) -> Result<()> {
    let mut places = Vec::new();
    for kind in PlaceKind::ALL {
        let is_needed = options.has(Part::Fill)
            || options.has(Part::Appends)
            || kind == PlaceKind::Weaviate && options.has(Part::Similar);
        if !is_needed || !options.has_target(kind) {
            continue;
        }
        progress(format_args!("{kind}: start"));
        match tokio::task::block_in_place(|| Place::start(setup, kind, servers))? {
            Ok(place) => places.push(place),
            Err(why) => section
                .notes
                .push(format!("{kind} was not measured: {}", why.0)),
        }
    }
    let mut ledger = RecordedLedger::write(setup, setup.size(options.items, 400)).await?;
    for place in &places {
        let is_compared = place.kind == PlaceKind::Weaviate && options.has(Part::Similar);
        if !is_compared && !options.has(Part::Fill) {
            continue;
        }
        let projection = fill::measure(&ledger, place, section).await?;
        if is_compared {
            similar::measure(setup, &ledger, &projection, section).await?;
        }
    }
    if options.has(Part::Appends) {
        for place in &places {
            appends::measure(setup, &mut ledger, place, section).await?;
        }
    }
    ledger.close().await;
    Ok(())
}
