//! `filrouge team`

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Team {
    /// Start or resume a conversation with a team of agents
    Deploy(Deploy),
    /// List, show, import and export snapshot files of sessions
    #[command(subcommand)]
    Snapshots(TeamSnapshots),
}

/// At a terminal, runs a conversation; without a terminal, or with `--message`, sends one message and prints the answers.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 it is your turn again, or you left; 1 failed; 2 wrong usage; 3 no such session; 4 the \
                  session is another team's; 5 the session is open elsewhere; 6 an agent has failed; 129, 130, 143 \
                  ended by SIGHUP, Ctrl-C, SIGTERM. The conversation is kept in all cases."
)]
pub(crate) struct Deploy {
    /// The team file, TOML or JSON
    #[arg(value_name = "FILE", required_unless_present = "resume")]
    pub(crate) file: Option<PathBuf>,
    /// Resume the team's newest session, or this one
    #[arg(long, value_name = "ID", num_args = 0..=1)]
    pub(crate) resume: Option<Option<String>>,
    /// Start a new session without asking
    #[arg(long, conflicts_with = "resume")]
    pub(crate) new: bool,
    /// Send this message, wait for the answers and end; without it and without a terminal, reads stdin
    #[arg(long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TeamSnapshots {
    /// List snapshot files, the newest of a team first, and those that cannot be read
    List {
        /// Only snapshot files of the team in this file
        #[arg(long, value_name = "FILE")]
        team: Option<PathBuf>,
    },
    /// Show a snapshot file
    Show {
        /// The snapshot
        #[arg(value_name = "SNAPSHOT")]
        path: PathBuf,
    },
    /// Import a snapshot file into the ledger; safe to repeat
    Import {
        /// The snapshot
        #[arg(value_name = "SNAPSHOT")]
        path: PathBuf,
        /// The team file; the snapshot must be of that team
        #[arg(long, value_name = "FILE")]
        team: PathBuf,
    },
    /// Export a team's session from the ledger to a snapshot file
    Export {
        /// The session
        id: String,
        /// The folder [default: the configured one]
        #[arg(long, value_name = "FOLDER")]
        to: Option<PathBuf>,
    },
}
