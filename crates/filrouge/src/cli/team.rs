//! `filrouge team`

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Team {
    /// Talk with a team of agents, and go on with it another day
    Deploy(Deploy),
    /// Look at snapshot files of sessions, take them in, write them
    #[command(subcommand)]
    Snapshots(TeamSnapshots),
}

/// At a terminal, a conversation; without one, or with `--message`, one message and its answers.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 you have the floor again, or have left; 1 failed; 2 wrong usage; 3 no such session; 4 the \
                  session is another team's; 5 somebody else has the session open; 6 an agent has failed; 129, 130, 143 \
                  ended by SIGHUP, Ctrl-C, SIGTERM. What was said is kept in all cases."
)]
pub(crate) struct Deploy {
    /// The team file, TOML or JSON
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Go on with the team's newest session, or with this one
    #[arg(long, value_name = "ID", num_args = 0..=1, require_equals = true)]
    pub(crate) resume: Option<Option<String>>,
    /// Begin a new session without asking
    #[arg(long, conflicts_with = "resume")]
    pub(crate) new: bool,
    /// Say this, wait for the answers and end; without it and without a terminal, what stdin says
    #[arg(long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TeamSnapshots {
    /// List snapshot files, the newest of a team first, and those that cannot be read
    List {
        /// Only those of the team in this file
        #[arg(long, value_name = "FILE")]
        team: Option<PathBuf>,
    },
    /// Show what a snapshot file holds
    Show {
        /// The snapshot
        #[arg(value_name = "SNAPSHOT")]
        path: PathBuf,
    },
    /// Take a snapshot file into the ledger; safe to repeat
    Import {
        /// The snapshot
        #[arg(value_name = "SNAPSHOT")]
        path: PathBuf,
        /// The team file; the snapshot must be of that team
        #[arg(long, value_name = "FILE")]
        team: PathBuf,
    },
    /// Write a session of a team from the ledger into a snapshot file
    Export {
        /// The session
        id: String,
        /// Below this folder instead of the configured one
        #[arg(long, value_name = "FOLDER")]
        to: Option<PathBuf>,
    },
}
