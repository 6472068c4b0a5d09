//! The sessions that a projection should have now.

use std::collections::BTreeSet;
use std::sync::Arc;

use filrouge_engine::{Engine, Extent};
use filrouge_types::Failure;

use crate::feed::selected_sessions;
use crate::history::{ForeignHistory, Scan};
use crate::reading::read_session;
use crate::selection::Selection;
use crate::target::{SessionKey, SessionUpdate};

/// The selected sessions of the ledger, or of another program's history.
pub struct CurrentSessions<'a> {
    engine: &'a Engine,
    selection: &'a Selection,
    /// The history, unless the sessions are those of the ledger.
    scan: Option<Arc<Scan>>,
    keys: BTreeSet<SessionKey>,
}

impl<'a> CurrentSessions<'a> {
    /// Lists the sessions of the history, or without one those of the engine's ledger.
    ///
    /// # Errors
    /// `store_unavailable` if the history cannot be read; the ledger's errors.
    pub async fn list(
        engine: &'a Engine,
        history: Option<&Arc<ForeignHistory>>,
        selection: &'a Selection,
    ) -> Result<Self, Failure> {
        let scan = match history {
            Some(history) => Some(history.scan().await?),
            None => None,
        };
        let keys = match &scan {
            Some(scan) => scan.keys().collect(),
            None => selected_sessions(engine, selection).await?,
        };
        Ok(Self {
            engine,
            selection,
            scan,
            keys,
        })
    }

    /// The sessions.
    #[must_use]
    pub const fn keys(&self) -> &BTreeSet<SessionKey> {
        &self.keys
    }

    /// Reads a session as it is now, and leaves out and masks what the selection says. `None` if it is not selected, or
    /// was removed.
    ///
    /// # Errors
    /// `limit_exceeded` when it has more than 256 MiB, `integrity_error`, `key_missing`; `store_unavailable` if the
    /// history cannot be read; the ledger's errors.
    pub async fn read(&self, key: &SessionKey) -> Result<Option<SessionUpdate>, Failure> {
        let Some(scan) = &self.scan else {
            return match self.selection.has_tenant(&key.tenant) {
                true => read_session(self.engine, self.selection, key, Extent::Entire).await,
                false => Ok(None),
            };
        };
        if *key != scan.key(&key.session) {
            return Ok(None);
        }
        let stamp = scan.sessions.get(&key.session).and_then(|s| s.stamp);
        let mut update = scan.read(&key.session, stamp.unwrap_or(0)).await?;
        if let Some(update) = &mut update {
            self.selection.apply(update);
        }
        Ok(update)
    }
}
