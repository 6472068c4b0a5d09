//! Notes as the shared state of several processes: typed values, and claims of the right to work.

use std::time::Duration;

use filrouge_store::{Entropy, Ledger};
use filrouge_types::{ErrorCode, Failure, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The maximum remaining time of a valid claim. A claim that ends later was written with a wrong clock, and is ignored.
const CLAIM_MAX: Duration = Duration::from_secs(120);
/// How many times a change is attempted while other processes change the same note.
const ATTEMPTS_MAX: usize = 20;

/// The right of one process to work, for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The process ([`new_holder`]).
    pub holder: String,
    /// When the right ends.
    pub until: Timestamp,
}

impl Claim {
    /// Whether the claim is valid at `now`.
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        now < self.until && self.until <= now.after(CLAIM_MAX)
    }
}

/// A note's value and its version when it was read.
#[derive(Debug, Clone)]
pub struct Stored<T> {
    /// The version.
    pub version: u64,
    /// The value.
    pub value: T,
}

/// Reads a note whose value is JSON; `None` if it does not exist.
///
/// # Errors
/// `integrity_error` if the value has another form, and the ledger's errors.
pub async fn read_note<T: DeserializeOwned>(
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
///
/// # Errors
/// The ledger's errors.
pub async fn write_note<T: Serialize + Sync>(
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
///
/// # Errors
/// Those of `change`, `overloaded` if other processes keep changing the note, `integrity_error` if its value has
/// another form, and the ledger's errors.
pub async fn change_note<T: Serialize + DeserializeOwned + Sync>(
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
///
/// # Errors
/// Those of `entropy`.
pub fn new_holder(entropy: &dyn Entropy) -> Result<String, Failure> {
    let mut random = [0; 8];
    entropy.fill(&mut random)?;
    Ok(format!("{}-{}", std::process::id(), hex::encode(random)))
}
