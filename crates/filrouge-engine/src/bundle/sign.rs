//! The signature over a bundle's head.

use std::fmt;
use std::str::FromStr;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use filrouge_store::{KeyId, Keyring};

use filrouge_store::hex::from_hex;

/// The prefix of the signed bytes: it makes a head's signature invalid for any other kind of data.
const LABEL: &[u8] = b"filrouge bundle 1\0";

/// The public half of the key that bundles are signed with; its text is 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

/// The error for a text that is not a public key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not an Ed25519 public key: 64 hexadecimal digits of a point of the curve, as `filrouge keyring list` shows them"
)]
pub struct PublicKeyError;

impl FromStr for PublicKey {
    type Err = PublicKeyError;

    fn from_str(text: &str) -> Result<Self, PublicKeyError> {
        let bytes = from_hex(&text.to_ascii_lowercase()).ok_or(PublicKeyError)?;
        VerifyingKey::from_bytes(&bytes).map_err(|_| PublicKeyError)?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl PublicKey {
    /// The public key of key `id` in a keyring; `None` when the keyring does not have it.
    pub fn from_keyring(keyring: &Keyring, id: KeyId) -> Option<Self> {
        let key = SigningKey::from_bytes(&keyring.signing_seed(id)?);
        Some(Self(key.verifying_key().to_bytes()))
    }

    /// Whether `signature`, in hexadecimal digits, is this key's signature of `head`.
    pub(super) fn has_signed(&self, head: &str, signature: &str) -> bool {
        let (Some(bytes), Ok(key)) = (from_hex(signature), VerifyingKey::from_bytes(&self.0))
        else {
            return false;
        };
        let signature = Signature::from_bytes(&bytes);
        key.verify_strict(&signed_message(head), &signature).is_ok()
    }
}

/// Signs a head with key `id`; returns hexadecimal digits, or `None` when the keyring does not have the key.
pub(super) fn sign(keyring: &Keyring, id: KeyId, head: &str) -> Option<String> {
    let key = SigningKey::from_bytes(&keyring.signing_seed(id)?);
    Some(hex::encode(key.sign(&signed_message(head)).to_bytes()))
}

fn signed_message(head: &str) -> Vec<u8> {
    [LABEL, head.as_bytes()].concat()
}
