//! Keys that are derived from those of a keyring, and the numbers that they derive.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// HMAC-SHA-256 under a key.
pub(super) type HmacSha256 = Hmac<Sha256>;

/// An HMAC under this secret.
pub(super) fn hmac(secret: &[u8; 32]) -> HmacSha256 {
    #[expect(clippy::expect_used, reason = "HMAC accepts every key length")]
    HmacSha256::new_from_slice(secret).expect("a key of any length")
}

/// The key that `secret` derives for the purpose `label`, in the store that `store` names.
pub(super) fn derived_key(secret: &[u8; 32], label: &[u8], store: &[u8]) -> HmacSha256 {
    let mut mac = hmac(secret);
    mac.update(label);
    mac.update(store);
    hmac(&mac.finalize().into_bytes().into())
}

/// A key that derives pseudorandom numbers.
#[derive(Clone)]
pub(crate) struct SecretNumbers(pub(super) HmacSha256);

impl SecretNumbers {
    /// The number of `pieces`, concatenated.
    pub(crate) fn number(&self, pieces: &[&[u8]]) -> u128 {
        let mut mac = self.0.clone();
        for piece in pieces {
            mac.update(piece);
        }
        let full = mac.finalize().into_bytes();
        let mut first_half = [0; 16];
        first_half.copy_from_slice(&full[..16]);
        u128::from_be_bytes(first_half)
    }
}
