//! The status of webhooks, for `filrouge doctor`, and the actions of an operator.

use filrouge_engine::notes::{Stored, change_note, read_note};
use filrouge_store::Ledger;
use filrouge_store::read::ChangeCursor;
use filrouge_types::{ErrorCode, Failure, Timestamp};
use serde::Serialize;

use super::batch::Batch;
use super::dead_letters;
use super::state::{State, note_name};
use super::{WebhookFeed, WebhookName};

pub use super::dead_letters::DeadLetter;

/// The status of a webhook in a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WebhookStatus {
    /// The name of the webhook.
    pub name: String,
    /// The position in the feed: all changes before it were delivered, or are among the dead letters. `null` if the
    /// webhook has not begun.
    pub cursor: Option<String>,
    /// The number of commits from the first undelivered change to the newest; 0 when everything was delivered.
    pub lag_commits: u64,
    /// The process that sends now.
    pub holder: Option<String>,
    /// The number of refused messages since the last delivered one.
    pub failures: u64,
    /// The reason of the newest refusal: `status_` and the number, such as `status_500`, or `timeout`, `connect`,
    /// `broken`.
    pub last_error: Option<String>,
    /// When the refused batch is sent again.
    pub retry_at: Option<Timestamp>,
    /// When the receiver permanently refused messages (410).
    pub disabled_at: Option<Timestamp>,
    /// Whether the dead letters are being sent again.
    pub redelivering: bool,
    /// Abandoned batches, oldest first.
    pub dead_letters: Vec<DeadLetter>,
    /// The number of older dead letters that were dropped.
    pub dead_letters_dropped: u64,
}

/// Returns the status of a webhook at `now`.
///
/// # Errors
/// Those of the ledger; `integrity_error` when a note of the webhook cannot be parsed.
pub async fn webhook_status(
    ledger: &dyn Ledger,
    feed: &WebhookFeed,
    now: Timestamp,
) -> Result<WebhookStatus, Failure> {
    let stored: Option<Stored<State>> = read_note(ledger, &note_name(&feed.name)).await?;
    let letters = dead_letters::load_letters(ledger, &feed.name).await?;
    let state = stored.map(|stored| stored.value);
    let lag_commits = match &state {
        Some(state) => count_lag(ledger, feed, state.parse_cursor()?).await?,
        None => 0,
    };
    let state = state.as_ref();
    let holder = state.and_then(|s| s.live_claim(now));
    Ok(WebhookStatus {
        name: feed.name.to_string(),
        cursor: state.map(|s| s.cursor.clone()),
        lag_commits,
        holder: holder.map(|claim| claim.holder.clone()),
        failures: state.map_or(0, |s| s.failures),
        last_error: state.and_then(|s| s.last_error.clone()),
        retry_at: state.and_then(|s| s.retry.as_ref()).map(|r| r.at),
        disabled_at: state.and_then(|s| s.disabled_at),
        redelivering: state.is_some_and(|s| s.redeliver),
        dead_letters: letters.letters,
        dead_letters_dropped: letters.dropped,
    })
}

/// Returns the number of commits from the webhook's first change after `cursor` to the newest commit; 0 if it has none.
async fn count_lag(
    ledger: &dyn Ledger,
    feed: &WebhookFeed,
    mut cursor: ChangeCursor,
) -> Result<u64, Failure> {
    loop {
        let batch = Batch::read(ledger, feed, cursor, None).await?;
        if let Some(first) = batch.changes.first() {
            let first: ChangeCursor = first.cursor.parse()?;
            let newest = ledger.position().commit_count();
            return Ok((newest + 1).saturating_sub(first.commit_count()));
        }
        if !batch.has_more {
            return Ok(0);
        }
        cursor = batch.next;
    }
}

/// An action of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookAction {
    /// Sends the dead letters again, each once, before anything else.
    Redeliver,
    /// Deletes the dead letters.
    Discard,
    /// Continues a webhook whose receiver had permanently refused messages.
    Enable,
}

/// Performs `action`; returns the number of dead letters before it.
///
/// The action takes effect in the server that sends for the webhook; if none is running, in the next one that starts.
///
/// # Errors
/// `invalid` when the store has no note of the webhook, except to discard; those of the ledger.
pub async fn change_webhook(
    ledger: &dyn Ledger,
    name: &WebhookName,
    action: WebhookAction,
) -> Result<usize, Failure> {
    let letter_count = dead_letters::load_letters(ledger, name)
        .await?
        .letters
        .len();
    if action == WebhookAction::Discard {
        dead_letters::change_letters(ledger, name, |letters| {
            *letters = dead_letters::DeadLetters::default();
        })
        .await?;
        return Ok(letter_count);
    }
    change_note(ledger, &note_name(name), |state: Option<State>| {
        let Some(before) = state else {
            let detail = format!("the store knows no webhook {:?}", name.as_str());
            return Err(Failure::new(ErrorCode::Invalid, detail).with_hint(
                "a webhook begins when a server starts that has it in its configuration",
            ));
        };
        let mut after = before.clone();
        match action {
            WebhookAction::Redeliver => after.redeliver = letter_count > 0,
            WebhookAction::Enable | WebhookAction::Discard => {
                after.disabled_at = None;
                (after.failures, after.last_error) = (0, None);
            }
        }
        Ok((after != before).then_some(after))
    })
    .await?;
    Ok(letter_count)
}
