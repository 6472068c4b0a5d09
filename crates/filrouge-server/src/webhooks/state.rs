//! The state of a webhook, stored in the note "webhook/NAME".

use std::time::Duration;

use filrouge_store::read::ChangeCursor;
use filrouge_store::{Entropy, Ledger};
use filrouge_types::{ErrorCode, Failure, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::WebhookName;

/// The maximum remaining time of a valid claim. A claim that ends later was written with a wrong clock, and is ignored.
const CLAIM_MAX: Duration = Duration::from_secs(120);
/// How many times a change is attempted while other processes change the same note.
const ATTEMPTS_MAX: usize = 20;

/// The state of a webhook that all processes of a store share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    /// The position in the feed: all changes before it were delivered, or are among the dead letters.
    pub(super) cursor: String,
    /// The process that sends now.
    pub(super) claim: Option<Claim>,
    /// Set while the batch after the cursor is refused: the end of the batch, and when it is sent again.
    pub(super) retry: Option<PendingRetry>,
    /// When the receiver permanently refused messages.
    pub(super) disabled_at: Option<Timestamp>,
    /// Whether to send the dead letters again.
    pub(super) redeliver: bool,
    /// The number of refused messages since the last delivered one.
    pub(super) failures: u64,
    /// The reason of the newest refusal.
    pub(super) last_error: Option<String>,
}

/// The right to send, for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    pub(super) holder: String,
    pub(super) until: Timestamp,
}

/// A batch to retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PendingRetry {
    /// The end of the batch, so that every attempt sends the same changes.
    pub(super) next_cursor: String,
    pub(super) attempts: u32,
    pub(super) at: Timestamp,
}

/// Returns `time` plus a duration, limited to the greatest time.
pub(super) fn add_duration(time: Timestamp, by: Duration) -> Timestamp {
    let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(time.as_micros().saturating_add(by))
}

impl State {
    pub(super) fn starting_at(at: &ChangeCursor) -> Self {
        Self {
            cursor: at.to_string(),
            ..Self::default()
        }
    }

    pub(super) fn parse_cursor(&self) -> Result<ChangeCursor, Failure> {
        self.cursor.parse()
    }

    /// Records a delivered message. `claim` is a new claim of its sender, which may send the next message.
    pub(super) fn record_delivery(&mut self, claim: Claim) {
        self.claim = Some(claim);
        self.failures = 0;
        self.last_error = None;
    }

    /// Returns the claim, if there is one that is valid at `now`.
    pub(super) fn live_claim(&self, now: Timestamp) -> Option<&Claim> {
        let claim = self.claim.as_ref()?;
        (now < claim.until && claim.until <= add_duration(now, CLAIM_MAX)).then_some(claim)
    }
}

/// A note's value and its version when it was read.
#[derive(Debug, Clone)]
pub(super) struct Stored<T> {
    pub(super) version: u64,
    pub(super) value: T,
}

pub(super) fn note_name(webhook: &WebhookName) -> String {
    format!("webhook/{webhook}")
}

/// Reads a note; `None` if it does not exist.
pub(super) async fn read_note<T: DeserializeOwned>(
    ledger: &dyn Ledger,
    note: &str,
) -> Result<Option<Stored<T>>, Failure> {
    let Some(read) = ledger.note(note).await? else {
        return Ok(None);
    };
    let value = serde_json::from_slice(&read.value).map_err(|e| {
        let detail = format!("the note {note:?} cannot be read: {e}");
        Failure::new(ErrorCode::IntegrityError, detail)
            .with_hint("a newer version of filrouge may have written it")
    })?;
    Ok(Some(Stored {
        version: read.version,
        value,
    }))
}

/// Writes a note if it still has the version `expected`, 0 for a new note. Returns false if another process wrote
/// first.
pub(super) async fn write_note<T: Serialize + Sync>(
    ledger: &dyn Ledger,
    note: &str,
    expected: u64,
    value: &T,
) -> Result<bool, Failure> {
    let bytes =
        serde_json::to_vec(value).map_err(|e| Failure::new(ErrorCode::Internal, e.to_string()))?;
    ledger.put_note(note, expected, bytes).await
}

/// Changes a note. `change` gets the note's value, or `None` if the note does not exist. It returns the new value, or
/// `None` to write nothing. If another process wrote first, `change` is applied again to the value that it wrote.
pub(super) async fn change_note<T: Serialize + DeserializeOwned + Sync>(
    ledger: &dyn Ledger,
    note: &str,
    change: impl Fn(Option<T>) -> Result<Option<T>, Failure>,
) -> Result<(), Failure> {
    for _ in 0..ATTEMPTS_MAX {
        let (version, before) = match read_note(ledger, note).await? {
            Some(Stored { version, value }) => (version, Some(value)),
            None => (0, None),
        };
        let Some(after) = change(before)? else {
            return Ok(());
        };
        if write_note(ledger, note, version, &after).await? {
            return Ok(());
        }
    }
    let detail = format!("other processes keep changing the note {note:?}; nothing was changed");
    Err(Failure::new(ErrorCode::Overloaded, detail))
}

/// Returns a name for this process, unique among all processes that serve the store.
pub(super) fn new_holder(entropy: &dyn Entropy) -> Result<String, Failure> {
    let mut random = [0; 8];
    entropy.fill(&mut random)?;
    Ok(format!("{}-{}", std::process::id(), hex::encode(random)))
}
