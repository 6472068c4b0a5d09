//! Deletes contents from the spool when they are redacted or erased in the ledger.

use std::io;
use std::sync::Arc;

use filrouge_store::CommittedWrite;
use filrouge_store::command::{Command, Write};
use filrouge_types::{ErrorCode, Failure};
use tracing::Instrument;

use super::Core;
use super::known::SessionKey;
use super::local_session::unavailable;

use crate::shared::internal;

/// The failure if the spool's files cannot be rewritten after the write: the ledger has changed.
fn still_spooled(e: &io::Error) -> Failure {
    let code = match e.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorCode::StoreFull,
        _ => ErrorCode::StoreUnavailable,
    };
    let detail = format!("done in the ledger, but the spool may still hold its text: {e}");
    Failure::new(code, detail).with_hint("repeat the request, which changes nothing in the ledger")
}

impl Core {
    /// Runs a redaction, an erasure or a link in the ledger. After a redaction or an erasure, also deletes the contents
    /// of the session's dead letters; after an erasure, its queued writes as well (DESIGN §9).
    pub(super) async fn write_retraction(
        self: &Arc<Self>,
        key: &SessionKey,
        command: Command,
    ) -> Result<CommittedWrite, Failure> {
        // A redaction or a link must not overtake queued writes. An erasure waits for them only briefly, because the
        // ledger may never accept the session's first entry.
        let is_erasure = matches!(command.write, Write::Erase(_));
        let drained = self.wait_until_drained(key);
        match is_erasure {
            false => drained.await?,
            true => match tokio::time::timeout(self.options.after, drained).await {
                Ok(Err(failure)) if !self.ledger_answers().await => return Err(failure),
                _ => {}
            },
        }
        let (core, key) = (self.clone(), key.clone());
        // A separate task deletes the contents even if the caller disconnects.
        let write = async move { core.write_and_delete(key, command).await };
        let written = tokio::spawn(write.in_current_span()).await;
        written.map_err(|e| internal(format!("the task of a write ended early: {e}")))?
    }

    async fn write_and_delete(
        self: Arc<Self>,
        key: SessionKey,
        command: Command,
    ) -> Result<CommittedWrite, Failure> {
        let is_link = matches!(command.write, Write::Link(_));
        let is_erasure = matches!(command.write, Write::Erase(_));
        let outcome = self.inner.write(command).await;
        {
            // The known state is obsolete if the write was made. After a server error the write may have been made; but
            // while the session has queued writes, its known state is needed.
            let mut state = self.state();
            let may_have_changed = match &outcome {
                Ok(_) => true,
                Err(failure) => failure.code.status() >= 500 && !state.is_queued(&key),
            };
            if may_have_changed {
                state.known.forget(&key);
            }
        }
        let outcome = outcome?;
        if !is_link {
            let deleted = tokio::task::spawn_blocking(move || {
                if is_erasure {
                    self.discard(&key);
                }
                self.erase_dead_letters(&key)
            })
            .await;
            deleted.map_err(|e| unavailable(&e.to_string()))??;
        }
        Ok(outcome)
    }

    /// Deletes the contents of a session's dead letters; the letters stay. Also rewrites every queue file, so that no
    /// contents of drained entries remain on disk.
    fn erase_dead_letters(&self, key: &SessionKey) -> Result<(), Failure> {
        let mut files = self.files();
        let (tenant, session) = (key.0.as_str(), key.1.as_str());
        let mut folders: Vec<usize> = {
            let state = self.state();
            let of_session = state.dead.iter().filter(|l| l.key.as_ref() == Some(key));
            of_session.map(|letter| letter.folder).collect()
        };
        folders.dedup();
        for folder in folders {
            let Some(folder) = files.folder(folder) else {
                continue;
            };
            let mut letters = folder.contents().map_err(|e| still_spooled(&e))?.dead;
            for letter in letters.iter_mut().filter(|d| d.belongs_to(tenant, session)) {
                letter.body.clear();
            }
            folder
                .rewrite_dead(letters.iter())
                .map_err(|e| still_spooled(&e))?;
        }
        // A queue file contains drained entries until it is rewritten.
        for index in 0..files.folders.len() {
            let queued = self.state().entries_of_folder(index);
            if let Some(folder) = files.folder(index) {
                let rewritten = folder.rewrite(queued.iter().map(AsRef::as_ref));
                rewritten.map_err(|e| still_spooled(&e))?;
            }
        }
        Ok(())
    }
}
