//! Keeps the API keys and the issuer's keys current while the server runs.

use std::sync::{Arc, Weak};
use std::time::Duration;

use filrouge_engine::Engine;
use filrouge_types::{ErrorCode, Failure, Timestamp};
use tokio::sync::watch;

use super::Shared;
use super::kept::keep;
use super::key_table::KeyTable;

/// The longest time between two reloads of the API keys, even if no commit is seen.
const REFRESH_EVERY: Duration = Duration::from_secs(2);
/// The minimum time between two reloads of the API keys.
const REFRESH_GAP: Duration = Duration::from_millis(100);
/// The time after which the file of kept keys is written again although they have not changed.
const KEEP_EVERY: Duration = Duration::from_secs(60);

/// Reloads the API keys after commits, so that no request has to wait for a read of them.
pub(super) async fn keep_keys_current(
    shared: Weak<Shared>,
    engine: Arc<Engine>,
    mut commits: watch::Receiver<u64>,
) {
    let mut failing = false;
    let mut kept_at = Timestamp::from_micros(0);
    loop {
        // The ledger closes the channel when it is closed; then the keys are reloaded after each pause.
        let changed = tokio::time::timeout(REFRESH_EVERY, commits.changed()).await;
        if matches!(changed, Ok(Err(_))) {
            tokio::time::sleep(REFRESH_EVERY).await;
        }
        let stored = engine.keys.all().await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let failed = stored.as_ref().err().map(|failure| failure.code);
        let is_away = failed.is_none_or(|code| code == ErrorCode::StoreUnavailable);
        match stored {
            Ok(stored) => {
                failing = false;
                let table = shared.keys();
                let (current, is_kept) = (table.version(), table.kept_until().is_some());
                let is_new =
                    |current: u64| stored.version > current || is_kept && stored.version == current;
                let now = shared.clock.now();
                // An older version of the note is ignored, and the newer keys stay in use: once keys are required,
                // they remain required.
                if current.is_none_or(is_new) {
                    tracing::info!(keys = stored.keys.len(), "the API keys were read");
                    keep(shared.kept.clone(), &stored, now).await;
                    kept_at = now;
                    shared.replace_keys(KeyTable::from_stored(stored, None));
                } else if current == Some(stored.version) && now >= kept_at.after(KEEP_EVERY) {
                    keep(shared.kept.clone(), &stored, now).await;
                    kept_at = now;
                } else if current.is_some_and(|current| stored.version < current) {
                    tracing::error!("the note of the API keys is older than it was; it is ignored");
                }
            }
            Err(failure) if !failing => {
                failing = true;
                tracing::error!(%failure, "the API keys cannot be reloaded; those last read stay in use");
            }
            Err(_) => {}
        }
        let kept_until = shared.keys().kept_until();
        if kept_until.is_some_and(|until| !is_away || shared.clock.now() >= until) {
            let detail = "the API keys that this machine has seen are not used any more";
            let failure = Failure::new(ErrorCode::StoreUnavailable, detail);
            tracing::error!("{detail}; all callers are refused until the store answers");
            shared.replace_keys(KeyTable::NotLoaded(failure));
        }
        drop(shared);
        tokio::time::sleep(REFRESH_GAP).await;
    }
}

/// Fetches the issuer's keys again when they are old.
pub(super) async fn keep_issuer_keys_current(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(REFRESH_EVERY).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        if let Some(verifier) = &shared.verifier {
            verifier.refresh_if_old().await;
        }
    }
}
