//! Who holds a session, and what its application knew last (DESIGN §6).

use std::io::{self, Write};

use filrouge_engine::Caller;
use filrouge_engine::Engine;
use filrouge_types::{Checkpoint, Failure, Lease, SessionId};
use serde::Serialize;

use crate::output::printable;

/// Lease and newest checkpoint.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Call {
    /// `null` when it cannot be read.
    lease: Option<Lease>,
    /// The newest that can be read.
    checkpoint: Option<Checkpoint>,
    /// How many newer ones cannot.
    pub(crate) checkpoints_unreadable: usize,
}

impl Call {
    /// Looks at a session that can be read.
    ///
    /// # Errors
    /// `session_not_found`, and the ledger's.
    pub(crate) async fn of(
        engine: &Engine,
        caller: &Caller,
        id: &SessionId,
    ) -> Result<Self, Failure> {
        let lease = engine.calls.lease(caller, id).await?;
        let mut checkpoints = engine.calls.checkpoints(caller, id).await?;
        let unreadable = checkpoints.iter().take_while(|one| one.is_err()).count();
        let newest = (unreadable < checkpoints.len()).then(|| checkpoints.swap_remove(unreadable));
        Ok(Self {
            lease: Some(lease),
            checkpoint: newest.and_then(Result::ok),
            checkpoints_unreadable: unreadable,
        })
    }

    /// Whether there is nothing to tell an operator.
    pub(super) const fn is_well(&self) -> bool {
        self.checkpoints_unreadable == 0
    }

    /// Where the newest checkpoint that can be read stands, and its label.
    pub(crate) fn checkpoint(&self) -> Option<String> {
        let checkpoint = self.checkpoint.as_ref()?;
        let label = checkpoint.label.as_deref();
        let label = label.map_or_else(String::new, |label| format!(", {}", printable(label)));
        Some(format!("{}{label}", checkpoint.seq))
    }

    /// By whom the session is held, and until when.
    pub(crate) fn held(&self) -> Option<String> {
        let lease = self.lease.as_ref()?;
        let (holder, until) = (printable(lease.holder.as_ref()?), lease.expires_at?);
        Some(format!("by {holder}, fence {}, until {until}", lease.fence))
    }

    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        match self.checkpoint() {
            Some(checkpoint) => writeln!(out, "checkpoint  seq {checkpoint}")?,
            None => writeln!(out, "checkpoint  none")?,
        }
        if self.checkpoints_unreadable > 0 {
            let count = self.checkpoints_unreadable;
            writeln!(out, "            {count} newer CANNOT BE READ")?;
        }
        match self.held() {
            Some(held) => writeln!(out, "held        {held}"),
            None => Ok(()),
        }
    }
}
