//! `--source`, and what is looked for in sources

use clap::{Args, Subcommand, ValueEnum};
use filrouge_search::{Mode, Order};
use filrouge_sources::Role;
use filrouge_sources::programs::PROGRAMS;

use super::one_of;
use crate::config::SourceName;

/// The histories that a command looks at.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Sources {
    #[arg(long = "source", value_name = "NAME[:PATH]", help = format!(
        "Whose history: {}, or the ledger; with :PATH where it is not in its own place. Repeatable", programs()
    ))]
    pub(crate) sources: Vec<SourceName>,
}

/// The programs whose histories can be named.
pub(crate) fn programs() -> String {
    PROGRAMS.map(|program| program.name).join(", ")
}

impl Sources {
    /// Whether the ledger alone is meant, as by commands without `--source`.
    pub(crate) fn ledger_alone(&self) -> bool {
        self.sources.iter().all(SourceName::is_ledger)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Search {
    /// Words (all of them within one message), "a phrase", /regex/, -word for what must not be there, and filters:
    /// agent:, project:, tool:, role:, source:, session:, before:, after:, on: (on:28-december, -tool:bash); behind `--`
    /// where it begins with a hyphen
    #[arg(value_name = "QUERY")]
    pub(crate) query: Vec<String>,
    #[command(flatten)]
    pub(crate) sources: Sources,
    /// By what is looked for: all words, what means the like, or both; the last two need an index
    #[arg(long, default_value = "words", value_parser = one_of::<Mode>(&[
        ("words", "Everything that holds all words"),
        ("meaning", "What means the like, the nearest"),
        ("both", "Both, as one list"),
    ]))]
    pub(crate) mode: Mode,
    /// The query is a question: find what was asked alike before, and what was answered; needs an index
    #[arg(long, conflicts_with = "mode")]
    pub(crate) similar: bool,
    /// What comes first
    #[arg(long, default_value = "best", value_parser = one_of::<Order>(&[
        ("best", "What was most likely meant"),
        ("newest", "What changed last"),
    ]))]
    pub(crate) order: Order,
    /// Only what this agent has said or was asked
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Only of this project: its id, name or folder
    #[arg(long, value_name = "ID")]
    pub(crate) project: Option<String>,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Only what was said in this role
    #[arg(long, value_parser = one_of::<Role>(&[
        ("user", "Whoever asks"),
        ("assistant", "The agent"),
        ("system", "The program around them"),
    ]))]
    pub(crate) role: Option<Role>,
    /// Only this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Only from this moment on: a time such as 2027-01-31T00:00:00Z, a date (UTC), or how long ago, such as 7d
    #[arg(long, value_name = "TIME|DURATION")]
    pub(crate) since: Option<String>,
    /// Only before this moment; a date includes that day
    #[arg(long, value_name = "TIME|DURATION")]
    pub(crate) until: Option<String>,
    /// At most so many sessions
    #[arg(long, default_value_t = 20)]
    pub(crate) limit: usize,
    /// Where to go on: what the page before says
    #[arg(long)]
    pub(crate) cursor: Option<String>,
    /// Show what has the form of a credential, too
    #[arg(long)]
    pub(crate) unmasked: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Mcp {
    /// Add this server to a coding agent's configuration; shows the change and asks
    Install(Install),
}

#[derive(Debug, Args)]
pub(crate) struct Install {
    /// Whose configuration
    #[arg(long, value_enum)]
    pub(crate) client: McpClient,
    /// For all projects of this user, or for the project in the current folder
    #[arg(long, value_enum, default_value = "user")]
    pub(crate) scope: InstallScope,
    /// Do not ask; needed where stdin is no terminal
    #[arg(long)]
    pub(crate) yes: bool,
    /// Show the change, and change nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) print: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpClient {
    /// OpenCode: opencode.json or opencode.jsonc
    Opencode,
    /// Claude Code: ~/.claude.json, or .mcp.json of a project
    ClaudeCode,
    /// Codex: config.toml
    Codex,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InstallScope {
    /// The user's own configuration
    User,
    /// The project's, in the current folder
    Project,
}
