//! `filrouge doctor`, `anchor`, `keyring`, `keys`, `migrate`, `config`

use clap::{Args, Subcommand};
use filrouge_engine::api_keys::Role;

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
