//! `filrouge sessions`, `filrouge search`

use clap::{Args, Subcommand};

use super::Sources;

#[derive(Debug, Subcommand)]
pub(crate) enum Sessions {
    /// List sessions, newest first
    List(ListSessions),
    /// Show a session with all its turns
    Show(ShowSession),
    /// Show items as they come, also those that other processes write; ends with Ctrl-C
    Tail {
        /// The session
        id: String,
        /// Begin behind this seq; without it, with what comes from now on
        #[arg(long, value_name = "SEQ")]
        after: Option<u64>,
        /// Show the text of streams as it grows, too
        #[arg(long)]
        drafts: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ShowSession {
    /// The session
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) sources: Sources,
    /// With --source: at most so many characters of text, instead of everything
    #[arg(long, value_name = "N", requires = "sources")]
    pub(crate) max_chars: Option<usize>,
    /// With --source: where to go on, what the page before says
    #[arg(long, requires = "sources")]
    pub(crate) cursor: Option<String>,
    /// With --source: show what has the form of a credential, too
    #[arg(long, requires = "sources")]
    pub(crate) unmasked: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListSessions {
    #[command(flatten)]
    pub(crate) sources: Sources,
    /// Only of this project
    #[arg(long, value_name = "ID")]
    pub(crate) project: Option<String>,
    /// Only of this end user
    #[arg(long, value_name = "ID")]
    pub(crate) identity: Option<String>,
    /// Only those with an item by this agent
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Only active, paused or closed ones
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Option<String>,
    /// Only those whose title holds this text; ASCII letters match in either case
    #[arg(long, value_name = "TEXT")]
    pub(crate) q: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: usize,
    /// Where to go on: the next_cursor of the page before
    #[arg(long)]
    pub(crate) cursor: Option<String>,
    /// With --source: show what has the form of a credential, too
    #[arg(long, requires = "sources")]
    pub(crate) unmasked: bool,
}
