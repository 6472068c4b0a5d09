//! `filrouge audit`, `filrouge redact`, `filrouge erase`

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// Only rows of this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Only this end user's questions, and their answers
    #[arg(long, value_name = "ID")]
    pub(crate) identity: Option<String>,
    /// Only calls of this tool, and their results
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Only what this agent said and did
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Only rows from this time on: a time such as 2027-01-31T00:00:00Z, a date (UTC), or how long ago, such as 7d
    #[arg(long, value_name = "TIME|DURATION")]
    pub(crate) since: Option<String>,
    /// Only rows before this time; a date includes that day
    #[arg(long, value_name = "TIME|DURATION")]
    pub(crate) until: Option<String>,
    /// The output format [default: text; with --json jsonl]
    #[arg(long, value_enum)]
    pub(crate) format: Option<AuditFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditFormat {
    /// One line per row, for people
    Text,
    /// Comma-separated values, with a header line
    Csv,
    /// One JSON object per line
    Jsonl,
}

#[derive(Debug, Args)]
pub(crate) struct Erase {
    #[command(flatten)]
    pub(crate) target: EraseTarget,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

#[derive(Debug, Args)]
pub(crate) struct Consent {
    /// Show what would go, and change nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation; `erase` needs it when stdin is not a terminal
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct EraseTarget {
    /// Erase this session
    pub(crate) id: Option<String>,
    /// The same as ID
    #[arg(long, value_name = "ID", hide = true)]
    pub(crate) session: Option<String>,
    /// Erase all sessions of this end user
    #[arg(long, value_name = "ID")]
    pub(crate) identity: Option<String>,
    /// Erase all sessions of the tenant
    #[arg(long)]
    pub(crate) all_of_tenant: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Redact {
    /// The session
    #[arg(value_name = "ID")]
    pub(crate) session: String,
    #[command(flatten)]
    pub(crate) target: RedactTarget,
    #[command(flatten)]
    pub(crate) consent: Consent,
    /// Also remove the session's title if it has words of the contents
    #[arg(long)]
    pub(crate) with_title: bool,
    /// The reason; recorded in the ledger
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct RedactTarget {
    /// Redact an ended turn, with all its versions
    #[arg(long, value_name = "ID")]
    pub(crate) turn: Option<String>,
    /// Redact items by seq
    #[arg(long, value_name = "N|N-M", num_args = 1..)]
    pub(crate) seq: Vec<String>,
}
