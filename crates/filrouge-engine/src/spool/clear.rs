//! Taking contents away: what is redacted or erased in the ledger stays nowhere in the spool.

use std::sync::Arc;

use filrouge_store::Stored;
use filrouge_store::command::{Command, Write};
use filrouge_types::{ErrorCode, Failure};
use tracing::Instrument;

use super::Core;
use super::here::unavailable;
use super::known::Key;

impl Core {
    /// A write that takes contents away: of what waits and of dead letters as well (DESIGN §9).
    pub(super) async fn cleared(
        self: &Arc<Self>,
        key: &Key,
        command: Command,
    ) -> Result<Stored, Failure> {
        // What is erased need not be drained first: its first write may never be taken.
        let erases = matches!(command.write, Write::Erase(_));
        let settled = self.wait_settled(key);
        match erases {
            false => settled.await?,
            true => match tokio::time::timeout(self.options.after, settled).await {
                Ok(Err(failure)) if !self.answers().await => return Err(failure),
                _ => {}
            },
        }
        let (core, key) = (self.clone(), key.clone());
        // A task of its own: whoever hangs up leaves no contents behind.
        let clearing = async move { core.clear(key, command).await };
        let cleared = tokio::spawn(clearing.in_current_span()).await;
        cleared.map_err(|e| Failure::new(ErrorCode::Internal, format!("a write was ended: {e}")))?
    }

    async fn clear(self: Arc<Self>, key: Key, command: Command) -> Result<Stored, Failure> {
        let links = matches!(command.write, Write::Link(_));
        let erases = matches!(command.write, Write::Erase(_));
        let outcome = self.inner.write(command).await;
        {
            // Also when nobody knows whether it was done, unless the session goes on here.
            let mut state = self.state();
            let may_be = match &outcome {
                Ok(_) => true,
                Err(failure) => failure.code.status() >= 500 && !state.is_queued(&key),
            };
            if may_be {
                state.known.forget(&key);
            }
        }
        let outcome = outcome?;
        if !links {
            let erased = tokio::task::spawn_blocking(move || {
                if erases {
                    self.discard(&key);
                }
                self.erase_letters(&key)
            })
            .await;
            erased.map_err(|e| unavailable(&e.to_string()))??;
        }
        Ok(outcome)
    }

    /// Takes the contents of a session's dead letters away; that there were some stays.
    fn erase_letters(&self, key: &Key) -> Result<(), Failure> {
        let mut files = self.files();
        let (tenant, session) = (key.0.as_str(), key.1.as_str());
        let mut folders: Vec<usize> = {
            let state = self.state();
            let of_session = state.dead.iter().filter(|l| l.key.as_ref() == Some(key));
            of_session.map(|letter| letter.folder).collect()
        };
        folders.dedup();
        for folder in folders {
            let Some(folder) = files.at(folder) else {
                continue;
            };
            let mut dead = folder.contents().map_err(|e| self.not_kept(&e))?.dead;
            for dead in dead.iter_mut().filter(|d| d.is_of(tenant, session)) {
                dead.body.clear();
            }
            folder.rebury(dead.iter()).map_err(|e| self.not_kept(&e))?;
        }
        // A file of entries that are done with holds their contents until it is emptied.
        for nth in 0..files.folders.len() {
            let waiting = self.state().of_folder(nth);
            if let Some(folder) = files.at(nth) {
                let kept = folder.rewrite(waiting.iter().map(AsRef::as_ref));
                kept.map_err(|e| self.not_kept(&e))?;
            }
        }
        Ok(())
    }
}
