//! The command line's words; each command's work is in `commands`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// The system of record for conversations with AI agents.
#[derive(Debug, Parser)]
#[command(
    name = "filrouge",
    version,
    about,
    after_help = "Exit codes: 0 done; 1 failed, or `verify` found something broken; 2 wrong usage, or `verify` cannot tell."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command takes; each also from the environment and the configuration file.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Options {
    /// Where the journal is: sqlite:PATH or memory: [env: FILROUGE_STORE]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
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
    },
    /// Look at sessions
    #[command(subcommand)]
    Sessions(Sessions),
    /// Bring a history in that another program has written; safe to repeat
    Import {
        /// Whose history it is
        source: ImportSource,
        /// Its folder, or a bundle's file
        path: PathBuf,
        /// Take a bundle only if this key signed it, as `keyring list` shows keys
        #[arg(long, value_name = "HEX")]
        public_key: Option<String>,
    },
    /// Write a session to stdout
    Export {
        /// The session
        id: String,
        /// The form
        #[arg(long, value_enum, default_value = "json")]
        format: ExportFormat,
    },
    /// Erase contents of a session for good; that it was done, by whom, when and why stays
    Redact(Redact),
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
    /// Check the installation: settings, keys, store, anchor
    Doctor,
    /// Look at and accept the anchor, the witness of the newest state kept outside the data directory
    #[command(subcommand)]
    Anchor(Anchor),
    /// Look at and rotate the keys that stored data is authenticated with
    #[command(subcommand)]
    Keyring(Keyring),
    /// Look at the configuration
    #[command(subcommand)]
    Config(Config),
    /// Write a shell's completions to stdout
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sessions {
    /// List sessions, newest first
    List {
        /// Only of this project
        #[arg(long)]
        project: Option<String>,
        /// At most so many
        #[arg(long, default_value_t = 50)]
        limit: usize,
        /// Where to go on: the next_cursor of the page before
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Show a session with all its turns
    Show {
        /// The session
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Redact {
    /// The session
    pub(crate) session: String,
    #[command(flatten)]
    pub(crate) target: RedactTarget,
    /// Why; stays in the journal
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct RedactTarget {
    /// A turn that has ended, with all its versions
    #[arg(long, value_name = "ID")]
    pub(crate) turn: Option<String>,
    /// Items by their seqs
    #[arg(long, value_name = "N|N-M", num_args = 1..)]
    pub(crate) seq: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ImportSource {
    /// OpenCode's JSON tree (storage/ of 1.0 to 1.1, project/ of versions before)
    Opencode,
    /// A bundle that `export --format json` wrote: the same bytes come back
    Bundle,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Markdown, to read
    Md,
    /// One HTML file without scripts, to read and print
    Html,
    /// A signed bundle, to verify elsewhere and to import
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Anchor {
    /// Show what the anchor has seen and whether the store agrees
    Show,
    /// Make an anchor for a store that has none
    Init,
    /// Accept the store as it is, also when it is older than the anchor
    Accept,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Keyring {
    /// List key ids; the secrets are not shown
    List,
    /// Add a key and write with it from now on
    Rotate,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Show every setting with where it comes from
    Show,
}
