//! `filrouge search`, `filrouge mcp`, and the option `--source`.

use clap::{Args, Subcommand, ValueEnum};
use filrouge_search::{Mode, Order};
use filrouge_sources::Role;
use filrouge_sources::programs::PROGRAMS;

use super::value_parser_of;
use crate::config::SourceName;

/// The histories that a command queries.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Sources {
    #[arg(long = "source", value_name = "NAME[:PATH]", help = format!(
        "A history to query: {}, or the ledger; with :PATH if it is not in its default folder. Repeatable", program_names()
    ))]
    pub(crate) sources: Vec<SourceName>,
}

/// The names of the programs whose histories `--source` can name, separated by commas.
pub(crate) fn program_names() -> String {
    PROGRAMS.map(|program| program.name).join(", ")
}

impl Sources {
    /// Whether `--source` names only the ledger, or is absent.
    pub(crate) fn is_ledger_only(&self) -> bool {
        self.sources.iter().all(SourceName::is_ledger)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Search {
    /// Words (all within one message), "a phrase", /regex/, -word to exclude, and filters:
    /// agent:, project:, tool:, role:, source:, session:, before:, after:, on: (on:28-december, -tool:bash); after `--`
    /// if it begins with a hyphen
    #[arg(value_name = "QUERY")]
    pub(crate) query: Vec<String>,
    #[command(flatten)]
    pub(crate) sources: Sources,
    /// How to match: all words, similar meaning, or both; the last two need an index
    #[arg(long, default_value = "words", value_parser = value_parser_of::<Mode>(&[
        ("words", "Everything that holds all words"),
        ("meaning", "Texts of similar meaning, nearest first"),
        ("both", "Both, as one list"),
    ]))]
    pub(crate) mode: Mode,
    /// The query is a question: find similar earlier questions, and their answers; needs an index
    #[arg(long, conflicts_with = "mode")]
    pub(crate) similar: bool,
    /// The order of the results
    #[arg(long, default_value = "best", value_parser = value_parser_of::<Order>(&[
        ("best", "Best match first"),
        ("newest", "Last changed first"),
    ]))]
    pub(crate) order: Order,
    /// Only what this agent said or was asked
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Only sessions of this project: its id, name or folder
    #[arg(long, value_name = "ID")]
    pub(crate) project: Option<String>,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Only messages of this role
    #[arg(long, value_parser = value_parser_of::<Role>(&[
        ("user", "The questions of users"),
        ("assistant", "The agent"),
        ("system", "The program around them"),
    ]))]
    pub(crate) role: Option<Role>,
    /// Only this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Only messages from this time on: a time such as 2027-01-31T00:00:00Z, a date (UTC), or how long ago, such as 7d
    #[arg(long, value_name = "TIME|DURATION")]
    pub(crate) since: Option<String>,
    /// Only messages before this time; a date includes that day
    #[arg(long, value_name = "TIME|DURATION")]
    pub(crate) until: Option<String>,
    /// Show at most this many sessions
    #[arg(long, default_value_t = 20)]
    pub(crate) limit: usize,
    /// The cursor of the previous page
    #[arg(long)]
    pub(crate) cursor: Option<String>,
    /// Show texts that look like credentials, unmasked
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
    /// The agent to configure
    #[arg(long, value_enum)]
    pub(crate) client: McpClient,
    /// For all projects of this user, or for the project in the current folder
    #[arg(long, value_enum, default_value = "user")]
    pub(crate) scope: InstallScope,
    /// Do not ask for confirmation; required when stdin is not a terminal
    #[arg(long)]
    pub(crate) yes: bool,
    /// Show the change without making it
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
    /// The user's configuration
    User,
    /// The project's configuration, in the current folder
    Project,
}
