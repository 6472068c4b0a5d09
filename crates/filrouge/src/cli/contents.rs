//! `filrouge audit`, `filrouge redact`, `filrouge erase`

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// Only this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Only what this end user has asked, and what was answered
    #[arg(long, value_name = "ID")]
    pub(crate) identity: Option<String>,
    /// Only calls of this tool, and their results
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Only what this agent has said and done
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Only from this moment on: a time such as 2027-01-31T00:00:00Z, a date (UTC), or how long ago, such as 7d
    #[arg(long, value_name = "TIME|DURATION")]
    pub(crate) since: Option<String>,
    /// Only before this moment; a date includes that day
    #[arg(long, value_name = "TIME|DURATION")]
    pub(crate) until: Option<String>,
    /// The form [default: text; with --json jsonl]
    #[arg(long, value_enum)]
    pub(crate) format: Option<AuditFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditFormat {
    /// A line for each row, to read
    Text,
    /// Comma-separated values, with a line of names
    Csv,
    /// One JSON object a line
    Jsonl,
}

#[derive(Debug, Args)]
pub(crate) struct Erase {
    #[command(flatten)]
    pub(crate) target: EraseTarget,
    /// Do not ask; needed where stdin is no terminal
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct EraseTarget {
    /// This session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// All sessions of this end user
    #[arg(long, value_name = "ID")]
    pub(crate) identity: Option<String>,
    /// All sessions of the tenant
    #[arg(long)]
    pub(crate) all_of_tenant: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Redact {
    /// The session
    pub(crate) session: String,
    #[command(flatten)]
    pub(crate) target: RedactTarget,
    /// Why; stays in the journal
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct RedactTarget {
    /// A turn that has ended, with all its versions
    #[arg(long, value_name = "ID")]
    pub(crate) turn: Option<String>,
    /// Items by their seqs
    #[arg(long, value_name = "N|N-M", num_args = 1..)]
    pub(crate) seq: Vec<String>,
}
