//! The command line's words; each command's work is in `commands`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use filrouge_engine::api_keys::Role;

/// The system of record for conversations with AI agents.
#[derive(Debug, Parser)]
#[command(
    name = "filrouge",
    version,
    about,
    after_help = "Exit codes: 0 done; 1 failed, or `verify` or `doctor` found something wrong; 2 wrong usage, or `verify` cannot tell."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command takes; each also from the environment and the configuration file.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Options {
    /// Where the journal is: sqlite:PATH, postgres://user@host/database or memory: [env: FILROUGE_STORE]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// The hot store, where recent turns lie: memory: or redis://host:6379 [env: FILROUGE_HOT]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) hot: Option<String>,
    /// The tenant [env: FILROUGE_TENANT]
    #[arg(long, global = true, value_name = "ID")]
    pub(crate) tenant: Option<String>,
    /// The configuration file, TOML [env: FILROUGE_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Write JSON instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Read without checking MACs, for who has lost the keyring; links are still checked
    #[arg(long, global = true)]
    pub(crate) unverified: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the HTTP API on this machine
    Serve {
        /// Address to listen on; port 0 takes a free one [env: FILROUGE_LISTEN] [default: 127.0.0.1:7717]
        #[arg(long, value_name = "ADDR")]
        listen: Option<SocketAddr>,
    },
    /// Look at sessions
    #[command(subcommand)]
    Sessions(Sessions),
    /// Bring a history in that another program has written; safe to repeat
    Import {
        /// Whose history it is
        source: ImportSource,
        /// Its folder, or a bundle's file
        path: PathBuf,
        /// Take a bundle only if this key signed it, as `keyring list` shows keys
        #[arg(long, value_name = "HEX")]
        public_key: Option<String>,
    },
    /// Write a session to stdout
    Export {
        /// The session
        id: String,
        /// The form
        #[arg(long, value_enum, default_value = "json")]
        format: ExportFormat,
    },
    /// Show where a session comes from and what it has started
    Lineage {
        /// The session
        id: String,
    },
    /// Count turns, items, tools and tokens of a session and of what it has started; or key figures of live calls
    Stats(Stats),
    /// Show who said what, and which tool was called with which parameters, in order
    Audit(Audit),
    /// Erase contents of a session for good; that it was done, by whom, when and why stays
    Redact(Redact),
    /// Erase whole sessions for good, with a receipt for each; safe to repeat
    Erase(Erase),
    /// Check that everything is as it was written
    Verify {
        /// Only this session
        #[arg(conflicts_with = "bundle")]
        id: Option<String>,
        /// A bundle that `export` wrote, instead of the store; needs no keys
        #[arg(long, value_name = "FILE")]
        bundle: Option<PathBuf>,
        /// The bundle must be signed by this key, as `keyring list` shows keys
        #[arg(long, value_name = "HEX", requires = "bundle")]
        public_key: Option<String>,
    },
    /// Check the installation: settings, keys, store, anchor, hot store, webhooks; or one session
    #[command(args_conflicts_with_subcommands = true)]
    Doctor {
        /// Compare the hot store's copies of so many of the newest sessions with the ledger
        #[arg(long, value_name = "N", default_value_t = 100)]
        sessions: usize,
        /// Only this
        #[command(subcommand)]
        what: Option<Doctor>,
    },
    /// Look at and accept the anchor, the witness of the newest state kept outside the data directory
    #[command(subcommand)]
    Anchor(Anchor),
    /// Make, list and revoke API keys; as soon as there is one, a server asks everybody for a key
    #[command(subcommand)]
    Keys(Keys),
    /// Look at and rotate the keys that stored data is authenticated with
    #[command(subcommand)]
    Keyring(Keyring),
    /// Copy a whole store into a new one, of whichever kind; goes on where it stopped
    Copy {
        /// The store that is copied; it is only read, and may be in use: sqlite:PATH or postgres://…
        #[arg(long, value_name = "URL")]
        from: String,
        /// The store that is made, or gone on with: sqlite:PATH or postgres://…
        #[arg(long, value_name = "URL")]
        to: String,
    },
    /// Bring the store's schema up to date; a server does it by itself when it starts
    Migrate(Migrate),
    /// Look at the configuration
    #[command(subcommand)]
    Config(Config),
    /// Write a shell's completions to stdout
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sessions {
    /// List sessions, newest first
    List(ListSessions),
    /// Show a session with all its turns
    Show {
        /// The session
        id: String,
    },
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
pub(crate) struct ListSessions {
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
}

#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// The session
    #[arg(required_unless_present = "kpi", conflicts_with = "kpi")]
    pub(crate) id: Option<String>,
    /// Key figures of the tenant's live calls, counted from events
    #[arg(long)]
    pub(crate) kpi: bool,
    /// Of what happened from this moment on: a time such as 2027-01-31T00:00:00Z, or how long ago [default: seven days
    /// before --until]
    #[arg(
        long,
        value_name = "TIME|DURATION",
        requires = "kpi",
        conflicts_with = "id"
    )]
    pub(crate) since: Option<String>,
    /// Of what happened before this moment [default: now]
    #[arg(
        long,
        value_name = "TIME|DURATION",
        requires = "kpi",
        conflicts_with = "id"
    )]
    pub(crate) until: Option<String>,
    /// A row for each week (Monday to Sunday) or day, in UTC [default: one row for all]
    #[arg(long, value_enum, requires = "kpi", conflicts_with = "id")]
    pub(crate) by: Option<KpiEvery>,
    /// The form [default: table]
    #[arg(long, value_enum, requires = "kpi", conflicts_with = "id")]
    pub(crate) format: Option<KpiFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KpiEvery {
    /// A week of ISO 8601
    Week,
    /// A day
    Day,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KpiFormat {
    /// To read
    Table,
    /// One document
    Json,
    /// Comma-separated values, with a line of names
    Csv,
}

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
    /// Only from this moment on: a time such as 2027-01-31T00:00:00Z, or how long ago, such as 7d
    #[arg(long, value_name = "TIME|DURATION")]
    pub(crate) since: Option<String>,
    /// Only before this moment
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

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ImportSource {
    /// OpenCode's JSON tree (storage/ of 1.0 to 1.1, project/ of versions before)
    Opencode,
    /// A bundle that `export --format json` wrote: the same bytes come back
    Bundle,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Markdown, to read
    Md,
    /// One HTML file without scripts, to read and print
    Html,
    /// A signed bundle, to verify elsewhere and to import
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Doctor {
    /// Look at webhooks; send what was given up again
    Webhooks(DoctorWebhooks),
    /// Look at what waits for a ledger that did not answer, and at what the ledger has refused of it
    Spool(DoctorSpool),
    /// Show the exact state of a session: open turns, drafts, last items, unanswered calls, errors, what a restore sends
    Session(DoctorSession),
}

#[derive(Debug, Args)]
pub(crate) struct DoctorSession {
    /// The session
    pub(crate) id: String,
    /// Show so many of the newest items
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) items: usize,
    /// Restore in this format only: openai-chat, openai-responses, anthropic, gemini or pairs
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<filrouge_transcode::Format>,
}

#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct DoctorSpool {
    /// Show what is written, too
    #[arg(long)]
    pub(crate) show: bool,
    /// Queue this dead letter again, or all of them; the server whose folder it lies in must be stopped
    #[arg(long, value_name = "ID|all")]
    pub(crate) retry: Option<String>,
    /// Give this dead letter up, or all of them; the server whose folder it lies in must be stopped
    #[arg(long, value_name = "ID|all")]
    pub(crate) drop: Option<String>,
}

#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct DoctorWebhooks {
    /// Send the dead letters of this webhook again
    #[arg(long, value_name = "NAME")]
    pub(crate) redeliver: Option<String>,
    /// Throw the dead letters of this webhook away
    #[arg(long, value_name = "NAME")]
    pub(crate) discard: Option<String>,
    /// Let this webhook go on, whose receiver has answered 410
    #[arg(long, value_name = "NAME")]
    pub(crate) enable: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Anchor {
    /// Show what the anchor has seen and whether the store agrees
    Show,
    /// Make an anchor for a store that has none
    Init,
    /// Accept the store as it is, also when it is older than the anchor
    Accept,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Keyring {
    /// List key ids; the secrets are not shown
    List,
    /// Add a key and write with it from now on
    Rotate,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Make a key of the tenant and show it, this once
    Create(NewKey),
    /// List the tenant's keys; the secrets are not kept
    List,
    /// Revoke a key for good
    Revoke {
        /// The key's id, as `keys list` shows it
        key_id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct NewKey {
    /// What its holder is: service, user, auditor or admin
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: Role,
    /// What to call it in lists
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,
    /// The end user that its holder is, for the role user
    #[arg(long, value_name = "ID")]
    pub(crate) identity: Option<String>,
    /// When it ends: a time such as 2027-01-31T00:00:00Z, or how long, such as 30d
    #[arg(long, value_name = "TIME|DURATION")]
    pub(crate) expires: Option<String>,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct Migrate {
    /// Show what `up` would do, statement by statement, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(subcommand)]
    pub(crate) what: Option<MigrateWhat>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MigrateWhat {
    /// List the migrations, with what the store has of them; changes nothing
    Status,
    /// Do those that the store has not got
    Up {
        /// Show what would be done, statement by statement, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Show every setting with where it comes from
    Show,
}
