//! The API keys that are kept for a start while the store does not answer.

use filrouge_engine::api_keys::{ApiKeys, KeptKeys};
use filrouge_types::{Failure, Timestamp};

use super::key_table::KeyTable;

/// The keys of a server whose store does not answer, and `had_keys`, which becomes true if any were ever kept.
pub(super) fn without_store(
    kept: Option<&KeptKeys>,
    had_keys: &mut Option<bool>,
    failure: Failure,
    now: Timestamp,
) -> KeyTable {
    match kept.map_or(Ok(None), KeptKeys::read) {
        Ok(Some(seen)) => {
            *had_keys = Some(true);
            if seen.may_be_used(now) {
                let (seen_at, until) = (seen.seen_at, seen.until);
                tracing::warn!(%seen_at, %until, "the store does not answer; the API keys that this machine has last seen are used");
                return KeyTable::from_stored(seen.keys, Some(seen.until));
            }
            tracing::error!(
                "the API keys that this machine has seen are too old; all callers are refused until the store answers"
            );
        }
        Ok(None) if *had_keys == Some(false) => {
            return KeyTable::from_stored(ApiKeys::default(), None);
        }
        Ok(None) => {
            tracing::error!(%failure, "the API keys cannot be read; all callers are refused until they can be");
        }
        Err(unreadable) => {
            *had_keys = Some(true);
            tracing::error!(failure = %unreadable, "the API keys that this machine has seen cannot be used; all callers are refused until the store answers");
        }
    }
    KeyTable::NotLoaded(failure)
}

/// Keeps API keys that were read from the ledger at `now`, if there are any.
pub(super) async fn keep(kept: Option<KeptKeys>, stored: &ApiKeys, now: Timestamp) {
    let Some(kept) = kept.filter(|_| stored.version > 0) else {
        return;
    };
    let stored = stored.clone();
    let written = tokio::task::spawn_blocking(move || kept.write(&stored, now)).await;
    if let Ok(Err(failure)) = written {
        tracing::warn!(%failure, "the API keys cannot be kept for a start while the store does not answer");
    }
}
