//! `filrouge sessions`, `filrouge search`

use clap::{Args, Subcommand};

use super::Sources;

#[derive(Debug, Subcommand)]
pub(crate) enum Sessions {
    /// List sessions, newest first
    List(ListSessions),
    /// Show a session with all its turns
    Show(ShowSession),
    /// List the ids of all sessions, for shell completions
    #[command(hide = true)]
    Ids {
        /// The beginning of the ids
        #[arg(default_value = "")]
        start: String,
    },
    /// Follow new items, also of other processes; ends with Ctrl-C
    Tail {
        /// The session
        id: String,
        /// Start after this seq [default: new items only]
        #[arg(long, value_name = "SEQ")]
        after: Option<u64>,
        /// Also show the growing text of streams
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
    /// With --source: at most this many characters of text [default: all]
    #[arg(long, value_name = "N", requires = "sources")]
    pub(crate) max_chars: Option<usize>,
    /// With --source: the cursor of the previous page
    #[arg(long, requires = "sources")]
    pub(crate) cursor: Option<String>,
    /// With --source: show texts that look like credentials, unmasked
    #[arg(long, requires = "sources")]
    pub(crate) unmasked: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListSessions {
    #[command(flatten)]
    pub(crate) sources: Sources,
    /// Only sessions of this project
    #[arg(long, value_name = "ID")]
    pub(crate) project: Option<String>,
    /// Only sessions of this end user
    #[arg(long, value_name = "ID")]
    pub(crate) identity: Option<String>,
    /// Only sessions with an item by this agent; * in the name is any text
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Only active, paused or closed sessions
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Option<String>,
    /// Only sessions with this text in the title; ASCII letters match in either case
    #[arg(long, value_name = "TEXT")]
    pub(crate) q: Option<String>,
    /// By last activity (updated, the default) or creation (created), the newest first
    #[arg(long, value_name = "ORDER")]
    pub(crate) order: Option<String>,
    /// Show at most this many sessions
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: usize,
    /// The next_cursor of the previous page
    #[arg(long)]
    pub(crate) cursor: Option<String>,
    /// With --source: show texts that look like credentials, unmasked
    #[arg(long, requires = "sources")]
    pub(crate) unmasked: bool,
}
