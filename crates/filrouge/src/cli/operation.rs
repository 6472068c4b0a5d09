//! `filrouge doctor`, `anchor`, `keyring`, `keys`, `migrate`, `config`

use clap::{Args, Subcommand};
use filrouge_engine::api_keys::Role;

#[derive(Debug, Subcommand)]
pub(crate) enum Doctor {
    /// Show webhooks; retry dead letters
    Webhooks(DoctorWebhooks),
    /// Show writes that wait for the ledger, and those that the ledger refused
    Spool(DoctorSpool),
    /// Show the exact state of a session: open turns, drafts, last items, unanswered calls, errors, what a restore
    /// sends
    Session(DoctorSession),
}

#[derive(Debug, Args)]
pub(crate) struct DoctorSession {
    /// The session
    pub(crate) id: String,
    /// Show this many of the newest items
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) items: usize,
    /// Restore in this format only: openai-chat, openai-responses, anthropic, gemini or pairs
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<filrouge_transcode::Format>,
}

#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct DoctorSpool {
    /// Also show the queued writes
    #[arg(long)]
    pub(crate) show: bool,
    /// Requeue this dead letter, or all; the server that owns the folder must be stopped
    #[arg(long, value_name = "ID|all")]
    pub(crate) retry: Option<String>,
    /// Drop this dead letter, or all; the server that owns the folder must be stopped
    #[arg(long, value_name = "ID|all")]
    pub(crate) drop: Option<String>,
}

#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct DoctorWebhooks {
    /// Resend the dead letters of this webhook
    #[arg(long, value_name = "NAME")]
    pub(crate) redeliver: Option<String>,
    /// Drop the dead letters of this webhook
    #[arg(long, value_name = "NAME")]
    pub(crate) discard: Option<String>,
    /// Resume this webhook, which stopped because its receiver answered 410
    #[arg(long, value_name = "NAME")]
    pub(crate) enable: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Anchor {
    /// Show the anchor, and whether the store agrees with it
    Show,
    /// Create an anchor for a store without one
    Init,
    /// Accept the store as it is: older than the anchor, another one, or gone
    Accept,
    /// Print the newest commit as a line of JSON, for a witness that `verify --witness` reads
    Witness,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Keyring {
    /// List key ids; secrets are not shown
    List,
    /// Add a key, and write with it from now on
    Rotate,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Create a key of the tenant; it is shown only once
    Create(NewKey),
    /// List the tenant's keys; secrets are not stored
    List,
    /// Revoke a key for good
    Revoke {
        /// The key's id, as `keys list` shows it
        key_id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct NewKey {
    /// The role: service, user, auditor or admin
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: Role,
    /// A label for lists
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,
    /// The end user, for the role user
    #[arg(long, value_name = "ID")]
    pub(crate) identity: Option<String>,
    /// Expiry: a time such as 2027-01-31T00:00:00Z, or a duration, such as 30d
    #[arg(long, value_name = "TIME|DURATION")]
    pub(crate) expires: Option<String>,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct Migrate {
    /// Show the statements of `up`, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(subcommand)]
    pub(crate) command: Option<MigrateCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MigrateCommand {
    /// List the migrations, and which the store has; changes nothing
    Status,
    /// Run the missing migrations
    Up {
        /// Show the statements, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every setting, and its origin
    Show,
}
