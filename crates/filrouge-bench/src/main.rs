//! `filrouge-bench`: measures filrouge against limits: lean programs that do the same work. See docs/bench.md.
//!
//! A leg is one timed run of one program. A pair is a leg of filrouge and a leg of each limit, one after the other, so
//! that disturbances of the machine affect all of them.

mod append;
mod calls;
mod compare;
mod context;
mod decode;
mod flat;
mod fuzz;
mod hot;
mod http;
mod load;
mod open;
mod postgres;
mod processes;
mod product;
mod projections;
mod raw;
mod reads;
mod report;
mod search;
mod sessions;
mod size;
mod sources;
mod stats;
mod streams;
mod team;
mod workload;

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use report::Section;
use tempfile::TempDir;

/// The allocator of the program `filrouge`; lean programs and library in this process use it alike.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures filrouge against limits: lean programs that do the same work, in the same run.
#[derive(Debug, Parser)]
#[command(name = "filrouge-bench", version, about)]
struct Cli {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    command: Workload,
}

#[derive(Debug, Args)]
struct Options {
    /// Print one JSON document instead of tables
    #[arg(long, global = true)]
    json: bool,
    /// Run one pair of tiny legs, to check that everything works
    #[arg(long, global = true)]
    quick: bool,
    /// The number of pairs
    #[arg(long, global = true, default_value_t = 7)]
    pairs: usize,
    /// The folder for the stores, on a disk that flushes, not tmpfs [default: the temporary folder]
    #[arg(long, global = true)]
    dir: Option<PathBuf>,
    /// The filrouge binary to serve [default: built by cargo alongside this one]
    #[arg(long, global = true)]
    binary: Option<PathBuf>,
    /// The filrouge-bench of another build: both run in turns, and their results are printed side by side
    #[arg(long, global = true, conflicts_with = "binary")]
    compare: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
enum Workload {
    /// All workloads below, except projections
    All,
    /// Complete turns to one session, one call each
    Append1,
    /// Turns to 32 sessions at once, complete and in three calls
    Append32,
    /// Eight processes on one SQLite file, compared with one process
    Processes,
    /// The program over HTTP
    Http32,
    /// Turns through PostgreSQL, compared with a lean client that inserts the same rows; several servers
    Postgres,
    /// The time to open a store of 100,000 sessions
    Open,
    /// Redis in front: the newest 20 turns compared with LRANGE, durable turns with and without it, and memory
    Hot {
        /// The number of turns of anonymous sessions, for memory
        #[arg(long, default_value_t = hot::TURNS)]
        turns: u64,
        /// Run only this part
        #[arg(long)]
        part: Option<hot::Part>,
    },
    /// Live calls: resume of a long session and over HTTP, commits of a webhook, key figures of 100,000 events
    Calls,
    /// The newest 20 turns and 80 items of 5,000 turns
    Last20,
    /// All 20,000 items of 5,000 turns
    Readall,
    /// The context of 5,000 turns in every format, and of the newest 20
    Context,
    /// Turn 10,000 compared with turn 10, and memory
    Flat,
    /// Bytes on disk compared with bytes received
    Size,
    /// Providers' streams decoded, compared with their JSON parsed and ignored
    Decode,
    /// Other programs' histories: lists, histories, statistics and searches, compared with SQLite and ripgrep
    Sources,
    /// A team's session of 5,000 messages restored, and the next prompt built from it
    Team,
    /// Search over indexes: recall, quality, speed, compared with a full scan
    Search(search::Parts),
    /// Projections into SQLite, PostgreSQL, OpenSearch and Weaviate, and searches over them
    Projections(projections::Options),
    /// Random damage to providers' streams: no input may break a decoder
    FuzzDecoders {
        /// The number of inputs
        #[arg(long, default_value_t = 1_000_000)]
        inputs: u64,
        /// The seed that inputs are derived from
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The number of the first input
        #[arg(long, default_value_t = 0)]
        from: u64,
    },
    /// Part of http32: the clients, in a separate process
    #[command(hide = true)]
    ChildLoad {
        /// The server's address
        #[arg(long)]
        address: String,
        /// The number of connections
        #[arg(long)]
        connections: usize,
        /// The number of turns on each connection
        #[arg(long)]
        turns: usize,
    },
    /// Part of processes: one of the processes
    #[command(hide = true)]
    ChildWriter {
        /// The folder of the store
        #[arg(long)]
        store: PathBuf,
        /// The number of the session
        #[arg(long)]
        session: usize,
        /// The number of its turns
        #[arg(long)]
        turns: usize,
    },
    /// Part of flat: memory, in a separate process
    #[command(hide = true)]
    ChildMemory,
    /// Part of hot: memory, in a separate process
    #[command(hide = true)]
    ChildHot {
        /// The URL of Redis
        #[arg(long)]
        url: String,
        /// The total number of turns
        #[arg(long)]
        turns: u64,
    },
}

/// The options of every workload.
struct Setup {
    quick: bool,
    pairs: usize,
    root: PathBuf,
    binary: Option<PathBuf>,
}

impl Setup {
    /// A fresh folder, deleted on drop.
    fn dir(&self) -> Result<TempDir> {
        tempfile::Builder::new()
            .prefix("filrouge-bench-")
            .tempdir_in(&self.root)
            .with_context(|| self.root.display().to_string())
    }

    /// The options of a test.
    #[cfg(test)]
    fn quick() -> Self {
        Self {
            quick: true,
            pairs: 1,
            root: std::env::temp_dir(),
            binary: None,
        }
    }

    /// `full`, or `tiny` with `--quick`.
    const fn size(&self, full: usize, tiny: usize) -> usize {
        if self.quick { tiny } else { full }
    }
}

/// Runs one workload.
async fn measure(setup: &Setup, workload: &Workload) -> Result<Section> {
    match workload {
        Workload::Append1 => append::append1(setup).await,
        Workload::Append32 => append::append32(setup).await,
        Workload::Processes => processes::processes(setup).await,
        Workload::Http32 => http::http(setup).await,
        Workload::Postgres => postgres::postgres(setup).await,
        Workload::Open => open::open(setup).await,
        Workload::Hot { turns, part } => hot::hot(setup, *turns, *part).await,
        Workload::Calls => calls::calls(setup).await,
        Workload::Last20 => reads::last20(setup).await,
        Workload::Readall => reads::readall(setup).await,
        Workload::Context => context::context(setup).await,
        Workload::Flat => flat::flat(setup).await,
        Workload::Size => size::size(setup).await,
        Workload::Decode => decode::decode(setup),
        Workload::Sources => sources::sources(setup),
        Workload::Search(parts) => search::search(setup, parts).await,
        Workload::Team => team::team_session(setup).await,
        Workload::Projections(options) => projections::projections(setup, options).await,
        other => anyhow::bail!("{other:?} is not a single workload"),
    }
}

/// Runs the chosen workloads and prints their results.
async fn run_and_print(setup: &Setup, command: &Workload, json: bool) -> Result<()> {
    use Workload::{
        Append1, Append32, Calls, Context, Decode, Flat, Hot, Http32, Last20, Open, Postgres,
        Processes, Readall, Search, Size, Sources, Team,
    };
    let all = [
        Append1,
        Append32,
        Processes,
        Http32,
        Postgres,
        Open,
        Hot {
            turns: hot::TURNS,
            part: None,
        },
        Calls,
        Last20,
        Readall,
        Context,
        Flat,
        Size,
        Decode,
        Sources,
        Team,
        Search(search::Parts::default()),
    ];
    let chosen = if *command == Workload::All {
        all.to_vec()
    } else {
        vec![command.clone()]
    };
    let mut out = std::io::stdout().lock();
    let mut sections = Vec::new();
    for workload in &chosen {
        let section = Section::measured(measure(setup, workload)).await?;
        if !json {
            report::print(&mut out, &section)?;
        }
        sections.push(section);
    }
    if json {
        serde_json::to_writer_pretty(&mut out, &sections)?;
        writeln!(out)?;
    }
    Ok(())
}

fn write_json(value: &impl serde::Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    Ok(out.flush()?)
}

fn main() -> Result<()> {
    let Cli { options, command } = Cli::parse();
    let setup = Setup {
        quick: options.quick,
        pairs: if options.quick {
            1
        } else {
            options.pairs.max(1)
        },
        root: options.dir.unwrap_or_else(std::env::temp_dir),
        binary: options.binary,
    };
    if let Some(other) = &options.compare {
        let mut out = std::io::stdout().lock();
        return Ok(writeln!(out, "{}", compare::compare(other, setup.pairs)?)?);
    }
    if let Workload::ChildLoad {
        address,
        connections,
        turns,
    } = &command
    {
        return write_json(&load::load(address, *connections, *turns)?);
    }
    if let Workload::FuzzDecoders { inputs, seed, from } = command {
        let outcome = fuzz::run(seed, from..from.saturating_add(inputs))?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{outcome}")?;
        return outcome.into_result();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match &command {
            Workload::ChildWriter {
                store,
                session,
                turns,
            } => processes::child(store, *session, *turns).await,
            Workload::ChildMemory => write_json(&flat::memory_child(&setup).await?),
            Workload::ChildHot { url, turns } => {
                write_json(&hot::growth_child(&setup, url, *turns).await?)
            }
            workload => run_and_print(&setup, workload, options.json).await,
        }
    })
}
