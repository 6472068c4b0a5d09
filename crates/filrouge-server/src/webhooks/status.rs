//! How webhooks stand, for `filrouge doctor`, and what an operator changes.

use filrouge_store::Ledger;
use filrouge_store::read::ChangeCursor;
use filrouge_types::{ErrorCode, Failure, Timestamp};
use serde::Serialize;

use super::batch::Batch;
use super::dead;
use super::state::{self, State, Stored, load, note_name};
use super::{WebhookFeed, WebhookName};

pub use super::dead::DeadLetter;

/// How a webhook stands in a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WebhookStatus {
    /// Its name.
    pub name: String,
    /// All before it was taken, or is among the dead letters; `null` when it has not begun.
    pub cursor: Option<String>,
    /// Commits from the first change that was not taken to the newest; 0 when all was.
    pub lag_commits: u64,
    /// Who sends now.
    pub holder: Option<String>,
    /// Refused messages since the last that was taken.
    pub failures: u64,
    /// Why the newest of them was: `status_500`, `timeout`, `connect`, `broken`.
    pub last_error: Option<String>,
    /// When the refused batch is sent again.
    pub retry_at: Option<Timestamp>,
    /// Since when the receiver wants no more (410).
    pub disabled_at: Option<Timestamp>,
    /// Whether the dead letters are being sent again.
    pub redelivering: bool,
    /// Batches that were given up, oldest first.
    pub dead_letters: Vec<DeadLetter>,
    /// How many older ones are not kept.
    pub dead_letters_dropped: u64,
}

/// How a webhook stands at `now`.
///
/// # Errors
/// The ledger's; `integrity_error` when a note of the webhook cannot be read.
pub async fn webhook_status(
    ledger: &dyn Ledger,
    feed: &WebhookFeed,
    now: Timestamp,
) -> Result<WebhookStatus, Failure> {
    let stored: Option<Stored<State>> = load(ledger, &note_name(&feed.name)).await?;
    let dead = dead::letters(ledger, &feed.name).await?;
    let state = stored.map(|stored| stored.value);
    let lag_commits = match &state {
        Some(state) => lag(ledger, feed, state.cursor()?).await?,
        None => 0,
    };
    let of_state = state.as_ref();
    let holder = of_state.and_then(|s| s.live_claim(now));
    Ok(WebhookStatus {
        name: feed.name.to_string(),
        cursor: of_state.map(|s| s.cursor.clone()),
        lag_commits,
        holder: holder.map(|claim| claim.holder.clone()),
        failures: of_state.map_or(0, |s| s.failures),
        last_error: of_state.and_then(|s| s.last_error.clone()),
        retry_at: of_state.and_then(|s| s.retry.as_ref()).map(|r| r.at),
        disabled_at: of_state.and_then(|s| s.disabled_at),
        redelivering: of_state.is_some_and(|s| s.redeliver),
        dead_letters: dead.letters,
        dead_letters_dropped: dead.dropped,
    })
}

/// Commits from the first change for the webhook behind `cursor` to the newest.
async fn lag(
    ledger: &dyn Ledger,
    feed: &WebhookFeed,
    mut cursor: ChangeCursor,
) -> Result<u64, Failure> {
    loop {
        let batch = Batch::read(ledger, feed, cursor, None).await?;
        if let Some(first) = batch.changes.first() {
            let first: ChangeCursor = first.cursor.parse()?;
            let newest = ledger.position().commit_no;
            return Ok((newest + 1).saturating_sub(first.commit_no));
        }
        if !batch.more {
            return Ok(0);
        }
        cursor = batch.next;
    }
}

/// What an operator changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookAction {
    /// The dead letters are sent again, each once, before anything else.
    Redeliver,
    /// The dead letters are thrown away.
    Discard,
    /// A webhook whose receiver wanted no more goes on.
    Enable,
}

/// Does `action`; gives how many dead letters it concerns.
///
/// The server that sends for the webhook takes it up; when none does, the next that starts.
///
/// # Errors
/// `invalid` when the store does not know the webhook; the ledger's.
pub async fn change_webhook(
    ledger: &dyn Ledger,
    name: &WebhookName,
    action: WebhookAction,
) -> Result<usize, Failure> {
    let letters = dead::letters(ledger, name).await?.letters.len();
    if action == WebhookAction::Discard {
        dead::change(ledger, name, |dead| *dead = dead::Dead::default()).await?;
        return Ok(letters);
    }
    state::change(ledger, &note_name(name), |state: Option<State>| {
        let Some(before) = state else {
            let what = format!("the store knows no webhook {:?}", name.as_str());
            return Err(Failure::new(ErrorCode::Invalid, what).with_hint(
                "a webhook begins when a server starts that has it in its configuration",
            ));
        };
        let mut after = before.clone();
        match action {
            WebhookAction::Redeliver => after.redeliver = letters > 0,
            WebhookAction::Enable | WebhookAction::Discard => {
                after.disabled_at = None;
                (after.failures, after.last_error) = (0, None);
            }
        }
        Ok((after != before).then_some(after))
    })
    .await?;
    Ok(letters)
}
