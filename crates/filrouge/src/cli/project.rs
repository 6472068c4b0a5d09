//! `filrouge project`

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Project {
    /// Keep projections up to date without a server, until it is stopped
    Run(RunProjections),
    /// Fill a new generation from the ledger's beginning; queries see the old one until it is complete
    Rebuild {
        /// The projection
        name: String,
    },
    /// Compare a projection with the ledger, and name every difference
    Verify {
        /// The projection
        name: String,
    },
    /// Show each projection: how far it is behind, what failed, what must still be cleaned
    Status,
}

#[derive(Debug, Args)]
pub(crate) struct RunProjections {
    /// Only this projection
    pub(crate) name: Option<String>,
    /// Stop when the projections are up to date; exit 1 if a target cannot be used
    #[arg(long)]
    pub(crate) once: bool,
}
