//! `filrouge import`, `filrouge export`

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Sources;

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Whose history it is
    pub(crate) source: ImportSource,
    /// Its folder, or a bundle's file [default: the folder the program itself uses]
    pub(crate) path: Option<PathBuf>,
    /// Take a bundle only if this key signed it, as `keyring list` shows keys
    #[arg(long, value_name = "HEX")]
    pub(crate) public_key: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportSource {
    /// OpenCode, all it has ever written: storage/, project/ and opencode*.db
    Opencode,
    /// Claude Code's JSONL files
    ClaudeCode,
    /// Codex's rollouts
    Codex,
    /// A bundle that `export --format json` wrote: the same bytes come back
    Bundle,
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
