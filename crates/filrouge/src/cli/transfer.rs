//! `filrouge import`, `filrouge export`

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use filrouge_sources::programs::PROGRAMS;

use super::Sources;

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Whose history it is
    #[arg(value_parser = import_sources())]
    pub(crate) source: String,
    /// Its folder, or a bundle's file [default: the folder the program itself uses]
    pub(crate) path: Option<PathBuf>,
    /// Take a bundle only if this key signed it, as `keyring list` shows keys
    #[arg(long, value_name = "HEX")]
    pub(crate) public_key: Option<String>,
}

fn import_sources() -> PossibleValuesParser {
    let bundle = "A bundle that `export --format json` wrote: the same bytes come back";
    let programs = PROGRAMS.iter().map(|program| (program.name, program.help));
    let known = programs.chain([("bundle", bundle)]);
    PossibleValuesParser::new(known.map(|(word, help)| PossibleValue::new(word).help(help)))
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The session
    pub(crate) id: String,
    /// The form
    #[arg(long, value_enum, default_value = "json")]
    pub(crate) format: ExportFormat,
    #[command(flatten)]
    pub(crate) sources: Sources,
    /// With --source: show what has the form of a credential, too
    #[arg(long, requires = "sources")]
    pub(crate) unmasked: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Markdown, to read
    Md,
    /// One HTML file without scripts, to read and print
    Html,
    /// A signed bundle, to verify elsewhere and to import; with --source, every message in one document
    Json,
}
