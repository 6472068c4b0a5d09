//! What is known of a webhook in its note "webhook/NAME".

use std::time::Duration;

use filrouge_store::read::ChangeCursor;
use filrouge_store::{Entropy, Ledger};
use filrouge_types::{ErrorCode, Failure, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::WebhookName;

/// A claim that ends later than so long from now was made by a clock that was wrong.
const CLAIM_MAX: Duration = Duration::from_secs(120);
/// How often a change is tried when others change the note at the same time.
const ATTEMPTS: usize = 20;

/// The state that all processes of a store share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    /// All before it was taken, or is among the dead letters.
    pub(super) cursor: String,
    /// Who sends now.
    pub(super) claim: Option<Claim>,
    /// The batch behind the cursor was refused, and when it is sent again.
    pub(super) retry: Option<Retry>,
    /// Since when the receiver wants no more.
    pub(super) disabled_at: Option<Timestamp>,
    /// Whether the dead letters are to be sent again.
    pub(super) redeliver: bool,
    /// Refused messages since the last that was taken.
    pub(super) failures: u64,
    /// Why the newest of them was.
    pub(super) last_error: Option<String>,
}

/// The right to send, for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    pub(super) holder: String,
    pub(super) until: Timestamp,
}

/// A batch to be sent again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Retry {
    /// Its end, so that every attempt tells of the same changes.
    pub(super) next_cursor: String,
    pub(super) attempts: u32,
    pub(super) at: Timestamp,
}

/// `time` after a while.
pub(super) fn later(time: Timestamp, by: Duration) -> Timestamp {
    let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(time.as_micros().saturating_add(by))
}

impl State {
    pub(super) fn beginning(at: ChangeCursor) -> Self {
        Self {
            cursor: at.to_string(),
            claim: None,
            retry: None,
            disabled_at: None,
            redeliver: false,
            failures: 0,
            last_error: None,
        }
    }

    pub(super) fn cursor(&self) -> Result<ChangeCursor, Failure> {
        self.cursor.parse()
    }

    /// A message was taken; who has sent it may send the next.
    pub(super) fn taken(&mut self, claim: Claim) {
        self.claim = Some(claim);
        self.failures = 0;
        self.last_error = None;
    }

    /// The claim that holds at `now`.
    pub(super) fn live_claim(&self, now: Timestamp) -> Option<&Claim> {
        let claim = self.claim.as_ref()?;
        (now < claim.until && claim.until <= later(now, CLAIM_MAX)).then_some(claim)
    }
}

/// A value of a note as it was read.
#[derive(Debug, Clone)]
pub(super) struct Stored<T> {
    pub(super) version: u64,
    pub(super) value: T,
}

pub(super) fn note_name(webhook: &WebhookName) -> String {
    format!("webhook/{webhook}")
}

/// Reads a note.
pub(super) async fn load<T: DeserializeOwned>(
    ledger: &dyn Ledger,
    note: &str,
) -> Result<Option<Stored<T>>, Failure> {
    let Some(found) = ledger.note(note).await? else {
        return Ok(None);
    };
    let value = serde_json::from_slice(&found.value).map_err(|e| {
        let what = format!("the note {note:?} cannot be read: {e}");
        Failure::new(ErrorCode::IntegrityError, what)
            .with_hint("a newer version of filrouge may have written it")
    })?;
    Ok(Some(Stored {
        version: found.version,
        value,
    }))
}

/// Puts a note that is at version `expected`; `false` when somebody else was first.
pub(super) async fn put<T: Serialize + Sync>(
    ledger: &dyn Ledger,
    note: &str,
    expected: u64,
    value: &T,
) -> Result<bool, Failure> {
    let bytes =
        serde_json::to_vec(value).map_err(|e| Failure::new(ErrorCode::Internal, e.to_string()))?;
    ledger.put_note(note, expected, bytes).await
}

/// Changes a note, again when somebody else was first; there is nothing to write when `change` gives nothing.
pub(super) async fn change<T: Serialize + DeserializeOwned + Sync>(
    ledger: &dyn Ledger,
    note: &str,
    change: impl Fn(Option<T>) -> Result<Option<T>, Failure>,
) -> Result<(), Failure> {
    for _ in 0..ATTEMPTS {
        let (version, before) = match load(ledger, note).await? {
            Some(Stored { version, value }) => (version, Some(value)),
            None => (0, None),
        };
        let Some(after) = change(before)? else {
            return Ok(());
        };
        if put(ledger, note, version, &after).await? {
            return Ok(());
        }
    }
    let what = format!("others change the note {note:?} all the time; nothing was changed");
    Err(Failure::new(ErrorCode::Overloaded, what))
}

/// Names a process among all that serve the store.
pub(super) fn new_holder(entropy: &dyn Entropy) -> Result<String, Failure> {
    let mut random = [0; 8];
    entropy.fill(&mut random)?;
    Ok(format!("{}-{}", std::process::id(), hex::encode(random)))
}
