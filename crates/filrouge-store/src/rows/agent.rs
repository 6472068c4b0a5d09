//! The agents of a session, by which lists find it, each row under its own MAC.

use super::SessionPk;
use crate::codec::{ByteReader, WriteBytes};
use crate::keyring::{Domain, KeyId, Keyring, MAC_BYTES, equal_macs};

/// One agent of a session as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRow {
    /// The agent's name. The session's number and the name are the row's key.
    pub agent: Box<str>,
    key_id: KeyId,
    mac: [u8; MAC_BYTES],
}

impl AgentRow {
    /// Signs an agent with the active key.
    pub fn sealed(agent: &str, keyring: &Keyring, pk: SessionPk) -> Self {
        let row = Self {
            agent: agent.into(),
            key_id: 0,
            mac: [0; MAC_BYTES],
        };
        row.signed(keyring, pk)
    }

    fn body(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(5 + MAC_BYTES);
        out.byte(crate::codec::FORMAT);
        out.extend_from_slice(&self.key_id.to_be_bytes());
        out
    }

    /// Decodes stored bytes; `None` when they are malformed.
    pub fn decode(agent: &str, bytes: &[u8]) -> Option<Self> {
        ByteReader::read_all(bytes, |r| {
            r.format()?;
            Ok(Self {
                agent: agent.into(),
                key_id: KeyId::from_be_bytes(r.array()?),
                mac: r.array()?,
            })
        })
    }
}

// The body has a fixed length, so the name needs no length.
sealed_row!(AgentRow, Agent, fn signed, |self| *self.agent.as_bytes());
