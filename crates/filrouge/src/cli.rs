//! The command line's words; each command's work is in `commands`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use serde::de::DeserializeOwned;

mod contents;
mod index;
mod models;
mod operation;
mod sessions;
mod sources;
mod stats;
mod team;
mod transfer;

use crate::config::SourceName;

pub(crate) use contents::{Audit, AuditFormat, Erase, Redact};
pub(crate) use index::Index;
pub(crate) use models::{InstallModel, Models};
pub(crate) use operation::{
    Anchor, Config, Doctor, DoctorSession, DoctorSpool, DoctorWebhooks, Keyring, Keys, Migrate,
    MigrateWhat, NewKey,
};
pub(crate) use sessions::{ListSessions, Sessions, ShowSession};
pub(crate) use sources::{Install, InstallScope, Mcp, McpClient, Search, Sources, programs};
pub(crate) use stats::{KpiFormat, Stats};
pub(crate) use team::{Deploy, Team, TeamSnapshots};
pub(crate) use transfer::{Export, ExportFormat, Import};

/// The system of record for conversations with AI agents.
#[derive(Debug, Parser)]
#[command(
    name = "filrouge",
    version,
    about,
    after_help = "Exit codes: 0 done; 1 failed, or `verify` or `doctor` found something wrong; 2 wrong usage, or `verify` cannot tell. `team deploy` has more: see its help."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command takes; each also from the environment and the configuration file.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Options {
    /// Where the journal is: sqlite:PATH, postgres://user@host/database or memory: [env: FILROUGE_STORE]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// The hot store, where recent turns lie: memory: or redis://host:6379 [env: FILROUGE_HOT]
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
    /// Read without checking MACs, for who has lost the keyring; links are still checked
    #[arg(long, global = true)]
    pub(crate) unverified: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the HTTP API on this machine
    Serve {
        /// Address to listen on; port 0 takes a free one [env: FILROUGE_LISTEN] [default: 127.0.0.1:7717]
        #[arg(long, value_name = "ADDR")]
        listen: Option<SocketAddr>,
        #[arg(long = "source", value_name = "NAME[:PATH]", help = format!(
            "Let whoever may call read this history over MCP, too: {}; with :PATH where it is not in its own place. \
             Repeatable", programs()
        ))]
        sources: Vec<SourceName>,
    },
    /// Look at sessions
    #[command(subcommand)]
    Sessions(Sessions),
    /// Bring a history in that another program has written; safe to repeat
    Import(Import),
    /// Write a session to stdout
    Export(Export),
    /// Search what was said and done, in the ledger and in the histories of coding agents on this machine
    Search(Search),
    /// Look at the indexes that make searching fast, and bring them up to date
    #[command(subcommand)]
    Index(Index),
    /// Serve the histories to an agent over MCP, on stdin and stdout
    #[command(args_conflicts_with_subcommands = true)]
    Mcp {
        #[command(flatten)]
        sources: Sources,
        /// Serve over HTTP instead, at http://ADDR/mcp; only addresses of this machine
        #[arg(long, value_name = "ADDR")]
        listen: Option<SocketAddr>,
        #[command(subcommand)]
        what: Option<Mcp>,
    },
    /// Show where a session comes from and what it has started
    Lineage {
        /// The session
        id: String,
        #[command(flatten)]
        sources: Sources,
        /// With --source: show what has the form of a credential, too
        #[arg(long, requires = "sources")]
        unmasked: bool,
    },
    /// Count turns, items, tools and tokens of a session and of what it has started, or of whole histories; or key
    /// figures of live calls
    Stats(Stats),
    /// Show who said what, and which tool was called with which parameters, in order
    Audit(Audit),
    /// Erase contents of a session for good; that it was done, by whom, when and why stays
    Redact(Redact),
    /// Erase whole sessions for good, with a receipt for each; safe to repeat
    Erase(Erase),
    /// Talk with teams of people and agents
    #[command(subcommand)]
    Team(Team),
    /// Check that everything is as it was written
    Verify {
        /// Only this session
        #[arg(conflicts_with = "bundle")]
        id: Option<String>,
        /// A bundle that `export` wrote, instead of the store; needs no keys
        #[arg(long, value_name = "FILE")]
        bundle: Option<PathBuf>,
        /// The bundle must be signed by this key, as `keyring list` shows keys
        #[arg(long, value_name = "HEX", requires = "bundle")]
        public_key: Option<String>,
    },
    /// Check the installation: settings, keys, store, anchor, hot store, webhooks; or one session
    #[command(args_conflicts_with_subcommands = true)]
    Doctor {
        /// Compare the hot store's copies of so many of the newest sessions with the ledger
        #[arg(long, value_name = "N", default_value_t = 100)]
        sessions: usize,
        /// Only this
        #[command(subcommand)]
        what: Option<Doctor>,
    },
    /// Look at and accept the anchor, the witness of the newest state kept outside the data directory
    #[command(subcommand)]
    Anchor(Anchor),
    /// Make, list and revoke API keys; as soon as there is one, a server asks everybody for a key
    #[command(subcommand)]
    Keys(Keys),
    /// Look at and rotate the keys that stored data is authenticated with
    #[command(subcommand)]
    Keyring(Keyring),
    /// Copy a whole store into a new one, of whichever kind; goes on where it stopped
    Copy {
        /// The store that is copied; it is only read, and may be in use: sqlite:PATH or postgres://…
        #[arg(long, value_name = "URL")]
        from: String,
        /// The store that is made, or gone on with: sqlite:PATH or postgres://…
        #[arg(long, value_name = "URL")]
        to: String,
    },
    /// Bring the store's schema up to date; a server does it by itself when it starts
    Migrate(Migrate),
    /// Install and list models, for search by meaning
    #[command(subcommand)]
    Models(Models),
    /// Look at the configuration
    #[command(subcommand)]
    Config(Config),
    /// Write a shell's completions to stdout
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// One of the words by which JSON names values of `T`, each with its help.
fn one_of<T: DeserializeOwned + Clone + Send + Sync + 'static>(
    words: &'static [(&'static str, &'static str)],
) -> impl TypedValueParser<Value = T> {
    let known = words.iter();
    let known = known.map(|(word, help)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(known).try_map(|word| serde_json::from_value(word.into()))
}
