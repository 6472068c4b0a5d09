//! Commitments and links: the half of tamper evidence that anyone can recompute without the keyring (DESIGN §9).

use filrouge_types::{SessionId, TenantId, Timestamp, TurnId};
use sha2::{Digest as _, Sha256};

/// The byte that names the algorithm of this module, SHA-256, in stored records.
pub const SHA256: u8 = 1;

/// Bytes of an item's salt.
pub const SALT_BYTES: usize = 16;

/// The hash that binds an item to all earlier items of its session.
pub type Link = [u8; 32];

/// The link before the first item of a session.
pub const GENESIS: Link = [0; 32];

/// `H(salt ‖ parts)`: after a redaction, only this hash of the content remains.
pub fn commitment(salt: &[u8; SALT_BYTES], parts: &[u8]) -> [u8; 32] {
    let mut h = Sha256::new();
    h.update(b"filrouge parts 1\0");
    h.update(salt);
    h.update(parts);
    h.finalize().into()
}

/// The hash state after the prefix that all links of a session have in common. It is computed once and reused for each
/// link.
#[derive(Clone)]
pub struct LinkScope(Sha256);

impl LinkScope {
    /// The state for the links of this session.
    pub fn new(tenant: &TenantId, session: &SessionId) -> Self {
        let mut h = Sha256::new();
        h.update(b"filrouge link 1\0");
        for id in [tenant.as_str(), session.as_str()] {
            h.update((id.len() as u64).to_be_bytes());
            h.update(id.as_bytes());
        }
        Self(h)
    }

    /// The link of one item: the hash of scope ‖ previous link ‖ seq ‖ turn ‖ created_at ‖ fields ‖ commitment.
    pub fn link(
        &self,
        previous: &Link,
        seq: u64,
        turn: Option<&TurnId>,
        created_at: Timestamp,
        fields: &[u8],
        commitment: &[u8; 32],
    ) -> Link {
        let mut h = self.0.clone();
        h.update(previous);
        h.update(seq.to_be_bytes());
        match turn {
            Some(id) => {
                h.update([1]);
                h.update(id.as_bytes());
            }
            None => h.update([0]),
        }
        h.update(created_at.as_micros().to_be_bytes());
        h.update((fields.len() as u64).to_be_bytes());
        h.update(fields);
        h.update(commitment);
        h.finalize().into()
    }
}

/// A hash of `pieces`, cut to 16 bytes. For a request's body, it distinguishes a retry from another request under the
/// same key (P2). Rows and versions of sessions use it too.
pub fn fingerprint(pieces: &[&[u8]]) -> [u8; 16] {
    let mut h = Sha256::new();
    h.update(b"filrouge request 1\0");
    for piece in pieces {
        h.update((piece.len() as u64).to_be_bytes());
        h.update(piece);
    }
    let full: [u8; 32] = h.finalize().into();
    let mut short = [0; 16];
    short.copy_from_slice(&full[..16]);
    short
}
