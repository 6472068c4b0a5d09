//! `filrouge project`

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum Project {
    /// Keep projections up to date without a server, until it is stopped
    Run(RunProjections),
    /// Fill a new, complete generation; queries see the old one until it is complete
    Rebuild {
        /// The projection
        name: String,
    },
    /// Compare a projection with its source, and name every difference
    Verify {
        /// The projection
        name: String,
    },
    /// Try the dead letters of a projection again at once
    Retry {
        /// The projection
        name: String,
    },
    /// Write sessions to files with the columns of SQL tables
    Export(ExportTables),
    /// Show each projection: how far it is behind, what failed, what must still be cleaned
    Status,
}

#[derive(Debug, Args)]
pub(crate) struct RunProjections {
    /// Only this projection
    pub(crate) name: Option<String>,
    /// Stop when the projections are up to date; exit 1 if a target cannot be used for 30 s
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportTables {
    /// Write what this projection selects, masked as its settings say [default: everything but checkpoints]
    pub(crate) name: Option<String>,
    /// The format of the files
    #[arg(long, value_enum, default_value = "parquet")]
    pub(crate) format: TableFormat,
    /// A new or empty folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) to: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum TableFormat {
    /// Apache Parquet: a folder for each table, in it one for each day
    Parquet,
}
