//! The text of a key: `frk_<key id>_<secret>`, letters and digits only, so that a double click selects all of it and a
//! scanner for leaked secrets recognizes its prefix.

use std::fmt;

use filrouge_store::Entropy;
use filrouge_types::Failure;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The prefix of every key.
const PREFIX: &str = "frk_";
/// The length of a key's id, in characters.
const ID_CHARS: usize = 12;
/// The length of a key's secret, in characters: 62^43 is just above 2^256.
const SECRET_CHARS: usize = 43;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A key in plain text. Only [`ApiKeyText::expose`] shows it.
#[derive(Debug)]
pub struct ApiKeyText(SecretString);

/// The stored hash of a key's secret. A slow password hash is not needed: nobody can guess a secret of 256 random bits.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct SecretHash(#[serde(with = "filrouge_store::hex")] [u8; 32]);

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash")
    }
}

impl SecretHash {
    fn from_secret(secret: &str) -> Self {
        Self::for_purpose(b"filrouge api key 1\0", secret)
    }

    /// The hash of a secret; the hashes of one secret for two purposes differ.
    pub(crate) fn for_purpose(purpose: &[u8], secret: &str) -> Self {
        let hash = Sha256::new()
            .chain_update(purpose)
            .chain_update(secret.as_bytes())
            .finalize();
        Self(hash.into())
    }

    /// Whether both are hashes of the same secret; compares in constant time.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

/// The parsed text of a key that a caller has presented.
#[derive(Debug)]
pub struct PresentedKey<'a> {
    /// The id, which is not secret.
    pub key_id: &'a str,
    /// The hash of the secret.
    pub hash: SecretHash,
}

impl ApiKeyText {
    /// Generates a random key: its text, its id, and the hash of its secret.
    ///
    /// # Errors
    /// `internal` when the system provides no randomness.
    pub(super) fn random(entropy: &dyn Entropy) -> Result<(Self, String, SecretHash), Failure> {
        let key_id = random_text(entropy, ID_CHARS)?;
        let secret = random_text(entropy, SECRET_CHARS)?;
        let hash = SecretHash::from_secret(&secret);
        let text = format!("{PREFIX}{key_id}_{secret}");
        Ok((Self(text.into()), key_id, hash))
    }

    /// The text itself, to show it to its holder once.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl<'a> PresentedKey<'a> {
    /// Parses a key's text; `None` when it does not have the form of a key.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (key_id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let has_form = |part: &str, length| {
            part.len() == length && part.bytes().all(|b| b.is_ascii_alphanumeric())
        };
        (has_form(key_id, ID_CHARS) && has_form(secret, SECRET_CHARS)).then(|| Self {
            key_id,
            hash: SecretHash::from_secret(secret),
        })
    }

    /// Whether a text has the prefix of a key.
    pub fn has_prefix(text: &str) -> bool {
        text.starts_with(PREFIX)
    }
}

/// Random letters and digits, uniformly distributed.
pub(crate) fn random_text(entropy: &dyn Entropy, length: usize) -> Result<String, Failure> {
    // The largest multiple of 62 (the alphabet's size) below 256. Bytes from 248 on are skipped, because they would
    // make the first 8 characters more frequent than the others.
    const SKIPPED_FROM: u8 = 248;
    let mut text = String::with_capacity(length);
    let mut bytes = [0; 64];
    while text.len() < length {
        entropy.fill(&mut bytes)?;
        let usable = bytes.iter().filter(|b| **b < SKIPPED_FROM);
        let missing = length - text.len();
        text.extend(
            usable
                .take(missing)
                .map(|b| char::from(ALPHABET[usize::from(b % 62)])),
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use filrouge_store::OsEntropy;

    use super::*;

    #[test]
    fn a_generated_key_is_parsed_back() {
        let (text, key_id, hash) = ApiKeyText::random(&OsEntropy).unwrap();
        let exposed = text.expose().to_owned();
        assert_eq!(exposed.len(), 4 + 12 + 1 + 43);
        let presented = PresentedKey::parse(&exposed).unwrap();
        assert_eq!(presented.key_id, key_id);
        assert!(presented.hash.matches(&hash));
        let (_, other_id, other) = ApiKeyText::random(&OsEntropy).unwrap();
        assert!(!presented.hash.matches(&other) && other_id != key_id);
        let secret = exposed.rsplit('_').next().unwrap();
        assert!(!format!("{text:?} {presented:?} {hash:?}").contains(secret));
    }

    #[test]
    fn malformed_keys_are_not_parsed() {
        let (text, ..) = ApiKeyText::random(&OsEntropy).unwrap();
        let text = text.expose();
        for wrong in [
            "",
            "frk_",
            "frk__",
            &text[1..],
            &text[..text.len() - 1],
            &format!("{text}x"),
            &format!("{text} "),
            &text.replacen('_', "-", 1),
            &format!("{}é", &text[..text.len() - 2]),
        ] {
            assert!(PresentedKey::parse(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn characters_are_uniformly_distributed() {
        let text = random_text(&OsEntropy, 62 * 500).unwrap();
        for character in ALPHABET {
            let count = text.bytes().filter(|b| b == character).count();
            assert!((350..650).contains(&count), "{character}: {count}");
        }
    }
}
