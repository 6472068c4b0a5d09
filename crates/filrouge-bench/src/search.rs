//! `search`: recall, ranking and latency of searches over indexes, compared with a full scan. See docs/bench-search.md.

mod appends;
mod brute;
mod change;
mod corpora;
pub(crate) mod engines;
mod imported;
mod invented;
mod judged;
mod ledger;
mod mix;
mod process;
mod quality;
mod recall;
mod score;
mod searchers;
mod speed;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::Setup;
use crate::report::Section;

pub(crate) use imported::operator;
pub(crate) use ledger::IndexedEngine;
pub(crate) use searchers::open_ledger_index;

/// The parts to run; all, if none is named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct Parts {
    /// The judged queries: nDCG@10, recall@10 and MRR by words, by meaning and by both
    #[arg(long)]
    quality: bool,
    /// Recall of everything stored: with a complete index, with half an index, and with none
    #[arg(long)]
    recall: bool,
    /// Generated histories: searches, build, update, size, a new process
    #[arg(long)]
    speed: bool,
    /// The same histories in a ledger: searches in process and over HTTP, appends with and without an index
    #[arg(long)]
    ledger: bool,
    /// The sizes of the histories of `--speed` and `--ledger`, as multiples of 40,000 parts [default: 1,5]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    times: Vec<usize>,
    /// The folder of MiniLM's files [default: hashes of words and pieces of words]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
}

impl Parts {
    const fn all(&self) -> bool {
        !(self.quality || self.recall || self.speed || self.ledger)
    }

    fn times(&self) -> &[usize] {
        match &self.times[..] {
            [] => &[1, 5],
            times => times,
        }
    }
}

/// `search`.
pub(crate) async fn search(setup: &Setup, parts: &Parts) -> Result<Section> {
    let mut section = Section::new("search");
    let all = parts.all();
    // This work blocks; meanwhile the runtime moves other tasks to other threads.
    tokio::task::block_in_place(|| {
        if all || parts.quality {
            quality::measure(setup, parts.model.as_deref(), &mut section)?;
        }
        if all || parts.recall {
            recall::measure(setup, &mut section)?;
        }
        if all || parts.speed {
            speed::measure(setup, parts.times(), &mut section)?;
        }
        anyhow::Ok(())
    })?;
    if all || parts.ledger {
        ledger::measure(setup, parts.times(), &mut section).await?;
    }
    Ok(section)
}
