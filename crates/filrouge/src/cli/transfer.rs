//! `filrouge import`, `filrouge export`

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use filrouge_sources::programs::PROGRAMS;

use super::Sources;

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The program that wrote the history
    #[arg(value_parser = import_sources())]
    pub(crate) source: String,
    /// Its folder, or a bundle's file [default: the folder the program itself uses]
    pub(crate) path: Option<PathBuf>,
    /// Accept a bundle only if this key signed it, as `keyring list` shows keys
    #[arg(long, value_name = "HEX")]
    pub(crate) public_key: Option<String>,
}

fn import_sources() -> PossibleValuesParser {
    let bundle = "A bundle that `export --format json` wrote; exporting the session again gives the same bytes";
    let programs = PROGRAMS.iter().map(|program| (program.name, program.help));
    let names = programs.chain([("bundle", bundle)]);
    PossibleValuesParser::new(names.map(|(word, help)| PossibleValue::new(word).help(help)))
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The session
    pub(crate) id: String,
    /// The output format
    #[arg(long, value_enum, default_value = "json")]
    pub(crate) format: ExportFormat,
    #[command(flatten)]
    pub(crate) sources: Sources,
    /// With --source: show texts that look like credentials, unmasked
    #[arg(long, requires = "sources")]
    pub(crate) unmasked: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Markdown, for people
    Md,
    /// One HTML file without scripts, for people and print
    Html,
    /// PDF, printed by a Chromium that is installed
    Pdf,
    /// A signed bundle, to verify and import elsewhere; with --source, every message in one document
    Json,
}
