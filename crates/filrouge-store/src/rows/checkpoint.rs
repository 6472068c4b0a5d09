//! Checkpoints: the application's state, each row under its own MAC (DESIGN §6, §9).

use filrouge_types::{Checkpoint, RawJson};

use super::SessionPk;
use crate::chain::fingerprint;
use crate::codec::{ByteReader, WriteBytes};
use crate::keyring::{Domain, KeyId, Keyring, MAC_BYTES, equal_macs};

/// A checkpoint, as the head of its session names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedCheckpoint {
    /// Its seq.
    pub seq: u64,
    /// The first bytes of the hash of its content. They distinguish it from an earlier checkpoint at the same seq.
    pub tag: [u8; 4],
}

impl NamedCheckpoint {
    /// The seq and the tag of a checkpoint.
    pub fn of(checkpoint: &Checkpoint) -> Self {
        let label = checkpoint.label.as_deref();
        let hash = fingerprint(&[
            b"checkpoint",
            &[u8::from(label.is_some())],
            label.unwrap_or_default().as_bytes(),
            &checkpoint.created_at.as_micros().to_be_bytes(),
            checkpoint.state.as_str().as_bytes(),
        ]);
        let mut tag = [0; 4];
        tag.copy_from_slice(&hash[..4]);
        Self {
            seq: checkpoint.seq,
            tag,
        }
    }
}

/// One checkpoint as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointRow {
    /// The checkpoint; its seq is the row's key.
    pub checkpoint: Checkpoint,
    key_id: KeyId,
    mac: [u8; MAC_BYTES],
}

impl CheckpointRow {
    /// Signs a checkpoint with the active key.
    pub fn sealed(checkpoint: Checkpoint, keyring: &Keyring, pk: SessionPk) -> Self {
        let row = Self {
            checkpoint,
            key_id: 0,
            mac: [0; MAC_BYTES],
        };
        row.signed(keyring, pk)
    }

    /// The length in bytes of the content that callers wrote.
    pub fn content_len(&self) -> usize {
        let label = self.checkpoint.label.as_ref().map_or(0, |l| l.len());
        label + self.checkpoint.state.as_str().len()
    }

    fn body(&self) -> Vec<u8> {
        let Checkpoint {
            label,
            state,
            created_at,
            ..
        } = &self.checkpoint;
        let mut out = Vec::with_capacity(state.as_str().len() + 64);
        out.byte(crate::codec::FORMAT);
        out.extend_from_slice(&self.key_id.to_be_bytes());
        out.optional(label.as_deref());
        out.time(*created_at);
        out.text(state.as_str());
        out
    }

    /// Decodes stored bytes; `None` when they are malformed.
    pub fn decode(seq: u64, bytes: &[u8]) -> Option<Self> {
        ByteReader::read_all(bytes, |r| {
            r.format()?;
            let key_id = KeyId::from_be_bytes(r.array()?);
            let label = r.optional()?.map(Into::into);
            Ok(Self {
                checkpoint: Checkpoint {
                    seq,
                    label,
                    created_at: r.time()?,
                    state: RawJson::from_checked(r.text()?),
                },
                key_id,
                mac: r.array()?,
            })
        })
    }
}

sealed_row!(CheckpointRow, Checkpoint, fn signed, |self| self.checkpoint.seq.to_be_bytes());
