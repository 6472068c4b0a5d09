//! The store digest: a keyed multiset hash of all heads and notes (DESIGN §9, docs/adr/0035-masked-digest.md).
//!
//! Each head and each note contributes a secret term: a pseudorandom function of the session's number or the note's
//! name, and of the row's MAC. The digest is the sum of all terms. A write subtracts the old term of a row and adds the
//! new one. A commit stores the sum masked under a fresh nonce. So the stored digests reveal neither a term nor the
//! difference of two terms, and nobody can choose older rows with the same sum.

use std::fmt;

use filrouge_types::{ErrorCode, Failure};

use crate::keyring::{Entropy, KeyId, Keyring, MAC_BYTES};
use crate::rows::SessionPk;

/// The length of a stored digest in bytes: the id of its key (4), the nonce (16) and the masked sum (16).
pub(crate) const DIGEST_BYTES: usize = 36;

/// The row that contributes a term.
#[derive(Debug, Clone, Copy)]
pub enum DigestRow<'a> {
    /// The head of the session with this number.
    Head(SessionPk),
    /// The note with this name.
    Note(&'a str),
}

/// The secret sum of all terms modulo 2^128.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest(u128);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(secret)")
    }
}

impl Digest {
    /// The digest after a row with this MAC was added.
    #[must_use]
    pub fn plus(self, keyring: &Keyring, row: DigestRow<'_>, mac: &[u8; MAC_BYTES]) -> Self {
        Self(self.0.wrapping_add(term(keyring, row, mac)))
    }

    /// The digest after a row with this MAC was removed.
    #[must_use]
    pub fn minus(self, keyring: &Keyring, row: DigestRow<'_>, mac: &[u8; MAC_BYTES]) -> Self {
        Self(self.0.wrapping_sub(term(keyring, row, mac)))
    }

    /// The masked digest, which a commit stores.
    ///
    /// # Errors
    /// `internal` when the random source fails.
    pub fn masked(self, keyring: &Keyring, entropy: &dyn Entropy) -> Result<MaskedDigest, Failure> {
        let mut nonce = [0; 16];
        entropy.fill(&mut nonce)?;
        let sum = self.0.wrapping_add(mask(keyring, &nonce));
        let key_id = keyring.root_id();
        Ok(MaskedDigest { key_id, nonce, sum })
    }
}

/// The term that a row with this MAC contributes.
fn term(keyring: &Keyring, row: DigestRow<'_>, mac: &[u8; MAC_BYTES]) -> u128 {
    match row {
        DigestRow::Head(pk) => keyring.digest_number(&[b"h", &pk.to_be_bytes(), mac]),
        DigestRow::Note(name) => keyring.digest_number(&[b"n", name.as_bytes(), mac]),
    }
}

/// The number that masks the sum under this nonce.
fn mask(keyring: &Keyring, nonce: &[u8; 16]) -> u128 {
    keyring.digest_number(&[b"m", nonce])
}

/// A digest as a commit stores it. Two masked digests look unrelated, even if their sums are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaskedDigest {
    key_id: KeyId,
    nonce: [u8; 16],
    sum: u128,
}

impl MaskedDigest {
    /// The sum; `None` when it was masked under a key other than the keyring's root key.
    pub fn unmasked(&self, keyring: &Keyring) -> Option<Digest> {
        let sum = self.sum.wrapping_sub(mask(keyring, &self.nonce));
        (self.key_id == keyring.root_id()).then_some(Digest(sum))
    }

    /// The sum, for the next commit, which applies its changes to it.
    ///
    /// # Errors
    /// `key_missing` when the sum was masked under a key other than the keyring's root key.
    pub(crate) fn unmasked_for_write(&self, keyring: &Keyring) -> Result<Digest, Failure> {
        self.unmasked(keyring).ok_or_else(|| {
            let detail = format!(
                "the keyring lacks key {}, the first key of the store",
                self.key_id
            );
            Failure::new(ErrorCode::KeyMissing, detail)
                .with_hint("restore the keyring; without its first key a store is only readable")
        })
    }

    /// The stored bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; DIGEST_BYTES] {
        let mut bytes = [0; DIGEST_BYTES];
        bytes[..4].copy_from_slice(&self.key_id.to_be_bytes());
        bytes[4..20].copy_from_slice(&self.nonce);
        bytes[20..].copy_from_slice(&self.sum.to_be_bytes());
        bytes
    }

    /// Reads stored bytes; any bytes are valid.
    pub fn from_bytes(bytes: [u8; DIGEST_BYTES]) -> Self {
        let (mut key_id, mut nonce, mut sum) = ([0; 4], [0; 16], [0; 16]);
        key_id.copy_from_slice(&bytes[..4]);
        nonce.copy_from_slice(&bytes[4..20]);
        sum.copy_from_slice(&bytes[20..]);
        let (key_id, sum) = (KeyId::from_be_bytes(key_id), u128::from_be_bytes(sum));
        Self { key_id, nonce, sum }
    }
}

#[cfg(test)]
mod tests;
