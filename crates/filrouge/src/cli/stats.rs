//! `filrouge stats`

use clap::{Args, ValueEnum};
use filrouge_engine::kpi::Every;

use super::{Sources, value_parser_of};

#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// The session
    #[arg(conflicts_with = "kpi")]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) sources: Sources,
    /// With --source: show texts that look like credentials, unmasked
    #[arg(long, requires = "sources")]
    pub(crate) unmasked: bool,
    /// Key figures of the tenant's live calls, counted from events
    #[arg(long, conflicts_with = "sources")]
    pub(crate) kpi: bool,
    /// With --source and no session: only sessions of this project: its id, name or folder
    #[arg(long, value_name = "ID", requires = "sources", conflicts_with = "id")]
    pub(crate) project: Option<String>,
    /// With --source and no session: only sessions of this agent
    #[arg(long, value_name = "NAME", requires = "sources", conflicts_with = "id")]
    pub(crate) agent: Option<String>,
    /// Only events from this time on: a time such as 2027-01-31T00:00:00Z, a date (UTC), or how long ago; with
    /// --source, of sessions last changed since [default for --kpi: seven days before --until]
    #[arg(long, value_name = "TIME|DURATION", conflicts_with = "id")]
    pub(crate) since: Option<String>,
    /// Only events before this time, a date includes that day; with --source, of sessions last changed before it
    /// [default: now]
    #[arg(long, value_name = "TIME|DURATION", conflicts_with = "id")]
    pub(crate) until: Option<String>,
    /// One row per week (Monday to Sunday) or day, in UTC [default: one row for all]
    #[arg(long, requires = "kpi", conflicts_with = "id", value_parser = value_parser_of::<Every>(&[
        ("week", "An ISO 8601 week"),
        ("day", "A day"),
    ]))]
    pub(crate) by: Option<Every>,
    /// The output format [default: table]
    #[arg(long, value_enum, requires = "kpi", conflicts_with = "id")]
    pub(crate) format: Option<KpiFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KpiFormat {
    /// A table, for people
    Table,
    /// One JSON document
    Json,
    /// Comma-separated values, with a header line
    Csv,
}
