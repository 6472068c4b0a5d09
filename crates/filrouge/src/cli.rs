//! The command-line grammar; `commands` runs each command.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use serde::de::DeserializeOwned;

mod contents;
mod index;
mod models;
mod operation;
mod project;
mod sessions;
mod sources;
mod stats;
mod team;
mod transfer;
mod ui;

use crate::config::SourceName;

pub(crate) use contents::{Audit, AuditFormat, Erase, Redact};
pub(crate) use index::IndexCommand;
pub(crate) use models::{InstallModel, Models};
pub(crate) use operation::{
    Anchor, ConfigCommand, Doctor, DoctorSession, DoctorSpool, DoctorWebhooks, Keyring, Keys,
    Migrate, MigrateCommand, NewKey,
};
pub(crate) use project::{ExportTables, Project, RunProjections, TableFormat};
pub(crate) use sessions::{ListSessions, Sessions, ShowSession};
pub(crate) use sources::{Install, InstallScope, Mcp, McpClient, Search, Sources, program_names};
pub(crate) use stats::{KpiFormat, Stats};
pub(crate) use team::{Deploy, Team, TeamSnapshots};
pub(crate) use transfer::{Export, ExportFormat, Import};
pub(crate) use ui::Ui;

/// The system of record for conversations with AI agents.
#[derive(Debug, Parser)]
#[command(
    name = "filrouge",
    version,
    about,
    after_help = "Exit codes: 0 done; 1 failed, or `verify` or `doctor` found something wrong; 2 wrong usage, or `verify` cannot decide whether data is unchanged. `team deploy` has more: see its help."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command; each can also be set in the environment and in the configuration file.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Options {
    /// The store of the ledger: sqlite:PATH, postgres://user@host/database or memory: [env: FILROUGE_STORE]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// The hot store for recent turns and ephemeral sessions: memory: or redis://host:6379 [env: FILROUGE_HOT]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) hot: Option<String>,
    /// The tenant [env: FILROUGE_TENANT]
    #[arg(long, global = true, value_name = "ID")]
    pub(crate) tenant: Option<String>,
    /// The configuration file, TOML [env: FILROUGE_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Write JSON instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Skip MAC checks (keyring lost); the hash chain is still checked
    #[arg(long, global = true)]
    pub(crate) unverified: bool,
    /// The path that runs this program again; `None`: the executable of this process.
    #[arg(skip)]
    pub(crate) program: Option<PathBuf>,
    /// Further settings, by the names of their environment variables in lower case and without `FILROUGE_`.
    #[arg(skip)]
    pub(crate) settings: BTreeMap<String, String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the HTTP API on this machine
    Serve {
        /// Address to listen on; port 0 selects a free one [env: FILROUGE_LISTEN] [default: 127.0.0.1:7717]
        #[arg(long, value_name = "ADDR")]
        listen: Option<SocketAddr>,
        #[arg(long = "source", value_name = "NAME[:PATH]", help = format!(
            "Also expose this history over MCP to every caller: {}; with :PATH if it is not in its default folder. \
             Repeatable", program_names()
        ))]
        sources: Vec<SourceName>,
    },
    /// Look at the ledger and the histories of coding agents on this machine in a browser; needs no set-up
    Ui(Ui),
    /// List, show and follow sessions
    #[command(subcommand)]
    Sessions(Sessions),
    /// Import another program's history; safe to repeat
    Import(Import),
    /// Export a session to stdout
    Export(Export),
    /// Search the ledger and the histories of coding agents on this machine
    Search(Search),
    /// Show and update the search indexes
    #[command(subcommand)]
    Index(IndexCommand),
    /// Serve histories to an agent over MCP, on stdin and stdout
    #[command(args_conflicts_with_subcommands = true)]
    Mcp {
        #[command(flatten)]
        sources: Sources,
        /// Serve over HTTP instead, at http://ADDR/mcp; loopback addresses only
        #[arg(long, value_name = "ADDR")]
        listen: Option<SocketAddr>,
        #[command(subcommand)]
        command: Option<Mcp>,
    },
    /// Show a session's ancestors, and the sessions it started
    Lineage {
        /// The session
        id: String,
        #[command(flatten)]
        sources: Sources,
        /// With --source: show texts that look like credentials, unmasked
        #[arg(long, requires = "sources")]
        unmasked: bool,
    },
    /// Count turns, items, tools and tokens of a session and those it started, or of whole histories; or show key
    /// figures of live calls
    Stats(Stats),
    /// Audit trail: who said what, and which tool was called with which parameters, in order
    Audit(Audit),
    /// Erase contents of a session for good; the record of who did it, when and why stays
    Redact(Redact),
    /// Erase whole sessions for good, with a receipt for each; safe to repeat
    Erase(Erase),
    /// Run and resume teams of people and agents
    #[command(subcommand)]
    Team(Team),
    /// Feed, rebuild, compare and export projections: copies of the ledger in other stores
    #[command(subcommand)]
    Project(Project),
    /// Verify that stored data is unchanged
    Verify {
        /// Verify only this session
        #[arg(conflicts_with = "bundle")]
        id: Option<String>,
        /// Verify a bundle that `export` wrote, instead of the store; needs no keyring
        #[arg(long, value_name = "FILE")]
        bundle: Option<PathBuf>,
        /// The bundle must be signed by this key, as `keyring list` shows keys
        #[arg(long, value_name = "HEX", requires = "bundle")]
        public_key: Option<String>,
        /// Also check that the store has every commit that this witness recorded; - for standard input
        #[arg(long, value_name = "FILE", conflicts_with_all = ["id", "bundle"])]
        witness: Option<PathBuf>,
    },
    /// Check the installation: settings, keys, store, anchor, hot store, webhooks; or one session
    #[command(args_conflicts_with_subcommands = true)]
    Doctor {
        /// Compare the hot store's copies of the N newest sessions with the ledger
        #[arg(long, value_name = "N", default_value_t = 100)]
        sessions: usize,
        /// Check only this subject
        #[command(subcommand)]
        command: Option<Doctor>,
    },
    /// Show and accept the anchor, the record of the newest state outside the data folder
    #[command(subcommand)]
    Anchor(Anchor),
    /// Create, list and revoke API keys; once one exists, the server requires a key
    #[command(subcommand)]
    Keys(Keys),
    /// List and rotate the keys that authenticate stored data
    #[command(subcommand)]
    Keyring(Keyring),
    /// Copy a whole store into a new one of any kind; resumes where it stopped
    Copy {
        /// The source; only read, may be in use: sqlite:PATH or postgres://…
        #[arg(long, value_name = "URL")]
        from: String,
        /// The target, created or resumed: sqlite:PATH or postgres://…
        #[arg(long, value_name = "URL")]
        to: String,
    },
    /// Migrate the store's schema; a server also does this when it starts
    Migrate(Migrate),
    /// Install and list models, for search by meaning
    #[command(subcommand)]
    Models(Models),
    /// Show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// The parser of an argument with a closed list of values. `names_with_help` lists the names that
/// the values of `T` have in JSON, each with its help.
fn value_parser_of<T: DeserializeOwned + Clone + Send + Sync + 'static>(
    names_with_help: &'static [(&'static str, &'static str)],
) -> impl TypedValueParser<Value = T> {
    let names = names_with_help.iter();
    let names = names.map(|(word, help)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(names).try_map(|word| serde_json::from_value(word.into()))
}
