//! Encodes writes of live calls as bytes, for the spool that stores them while the ledger does not answer (DESIGN §6,
//! docs/spool.md). A batch is encoded as its entries; decoding packs the entries again under new salts.

use std::sync::Arc;

use filrouge_types::{ErrorCode, Failure};

use super::{Command, Write};
use crate::keyring::Entropy;
use crate::lane::{Lane, Lanes};
use crate::record::Batch;

impl Command {
    /// The lane that the write changes, in a store with these lanes.
    pub fn lane(&self, lanes: Lanes) -> Lane {
        let session = self.write.session_id();
        session.map_or(Lane::FIRST, |id| lanes.of_session(&self.scope.tenant, id))
    }

    /// The command as JSON. `None` for a write that the spool does not store: one that belongs to no live call, or one
    /// of a recorded stream.
    pub fn encode(&self) -> Option<Vec<u8>> {
        match &self.write {
            Write::Append(append) if append.progress.is_some() => None,
            Write::Close(close) if close.stream.is_some() => None,
            _ => serde_json::to_vec(self).ok(),
        }
    }

    /// Decodes the bytes of [`Self::encode`].
    ///
    /// # Errors
    /// `integrity_error` for bytes that [`Self::encode`] does not write; `internal` when batches cannot be packed.
    pub fn decode(bytes: &[u8], entropy: &dyn Entropy) -> Result<Self, Failure> {
        let mut command: Self = serde_json::from_slice(bytes).map_err(|e| {
            // The failure contains only the position, because the text is content of the conversation.
            let position = format!("line {}, column {}", e.line(), e.column());
            let detail = format!("the bytes are not a write in this format: {position}");
            Failure::new(ErrorCode::IntegrityError, detail)
        })?;
        let batch = match &mut command.write {
            Write::Start(start) => Some(&mut Arc::make_mut(start).batch),
            Write::Append(append) => Some(&mut Arc::make_mut(append).batch),
            _ => None,
        };
        if let Some(batch) = batch {
            *batch = Batch::pack(batch.entries().to_vec(), entropy)?;
        }
        Ok(command)
    }
}

#[cfg(test)]
mod tests;
