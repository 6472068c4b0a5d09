//! A session's lease holder, and the newest state of its application (DESIGN §6).

use std::io::{self, Write};

use filrouge_engine::{Caller, Engine};
use filrouge_types::{Checkpoint, Lease, Result, SessionId};
use serde::Serialize;

/// The lease and the newest checkpoint.
#[derive(Debug, Default, Serialize)]
pub(crate) struct CallState {
    /// `null` when the session cannot be read.
    lease: Option<Lease>,
    /// The newest readable checkpoint.
    checkpoint: Option<Checkpoint>,
    /// The number of unreadable checkpoints that are newer than `checkpoint`.
    pub(crate) checkpoints_unreadable: usize,
}

impl CallState {
    /// Reads the state of a readable session.
    ///
    /// # Errors
    /// `session_not_found`; errors of the ledger.
    pub(crate) async fn read(engine: &Engine, caller: &Caller, id: &SessionId) -> Result<Self> {
        let lease = engine.calls.lease(caller, id).await?;
        let mut checkpoints = engine.calls.checkpoints(caller, id).await?;
        let unreadable = checkpoints
            .iter()
            .take_while(|checkpoint| checkpoint.is_err())
            .count();
        let newest = (unreadable < checkpoints.len()).then(|| checkpoints.swap_remove(unreadable));
        Ok(Self {
            lease: Some(lease),
            checkpoint: newest.and_then(Result::ok),
            checkpoints_unreadable: unreadable,
        })
    }

    /// Whether the newest checkpoint is readable, or there is no checkpoint. Otherwise an operator has to act.
    pub(super) const fn is_well(&self) -> bool {
        self.checkpoints_unreadable == 0
    }

    /// The seq and the label of the newest readable checkpoint, as text; `None` if there is none.
    pub(crate) fn checkpoint_text(&self) -> Option<String> {
        let checkpoint = self.checkpoint.as_ref()?;
        let label = checkpoint.label.as_deref();
        let label = label.map_or_else(String::new, |label| format!(", {label}"));
        Some(format!("{}{label}", checkpoint.seq))
    }

    /// The lease holder, the fence and the time at which the lease expires, as text; `None` if the session has no lease
    /// holder.
    pub(crate) fn lease_text(&self) -> Option<String> {
        let lease = self.lease.as_ref()?;
        let (holder, until) = (lease.holder.as_ref()?, lease.expires_at?);
        Some(format!("by {holder}, fence {}, until {until}", lease.fence))
    }

    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        match self.checkpoint_text() {
            Some(checkpoint) => writeln!(out, "checkpoint  seq {checkpoint}")?,
            None => writeln!(out, "checkpoint  none")?,
        }
        if self.checkpoints_unreadable > 0 {
            let count = self.checkpoints_unreadable;
            writeln!(out, "            {count} newer CANNOT BE READ")?;
        }
        let lease = self.lease_text();
        lease.map_or(Ok(()), |lease| writeln!(out, "held        {lease}"))
    }
}
