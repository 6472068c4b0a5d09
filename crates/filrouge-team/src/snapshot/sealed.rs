//! Snapshot files encrypted with age (<https://age-encryption.org/v1>): the `age` program reads them too.

use std::io::{Read, Write};

use age::secrecy::SecretString;
use age::{Decryptor, Encryptor, Identity, Recipient, scrypt, x25519};

use super::Seal;

/// Work that the key of a passphrase costs, as a power of two: a second, about.
const WORK: u8 = 18;
/// The most that is spent on a passphrase of a file that somebody else has written.
const WORK_MAX: u8 = 22;

/// What is no key of age.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgeError {
    /// Nobody could open the files.
    #[error("no recipient is named")]
    NoRecipient,
    /// A recipient that is none.
    #[error("{name:?} is no age recipient: {why}")]
    Recipient {
        /// As it was given.
        name: String,
        /// Why not.
        why: String,
    },
    /// An identity that is none; it is a secret, and not told.
    #[error("the identity is none of age: {0}")]
    Identity(String),
}

/// Encrypts to recipients, or by a passphrase.
pub struct AgeSeal {
    to: To,
    identities: Vec<x25519::Identity>,
}

enum To {
    Recipients(Vec<x25519::Recipient>),
    Passphrase(SecretString, u8),
}

impl AgeSeal {
    /// Encrypts to `recipients` (`age1…`), and opens what one of `identities` (`AGE-SECRET-KEY-1…`) opens; without one,
    /// files are written that are not read here.
    ///
    /// # Errors
    /// A key that is none.
    pub fn to_recipients<'a>(
        recipients: impl IntoIterator<Item = &'a str>,
        identities: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, AgeError> {
        let recipient = |name: &str| {
            name.parse().map_err(|why: &str| AgeError::Recipient {
                name: name.to_owned(),
                why: why.to_owned(),
            })
        };
        let recipients: Vec<x25519::Recipient> = recipients
            .into_iter()
            .map(recipient)
            .collect::<Result<_, _>>()?;
        if recipients.is_empty() {
            return Err(AgeError::NoRecipient);
        }
        let identity = |key: &str| {
            key.parse()
                .map_err(|why: &str| AgeError::Identity(why.to_owned()))
        };
        Ok(Self {
            to: To::Recipients(recipients),
            identities: identities
                .into_iter()
                .map(identity)
                .collect::<Result<_, _>>()?,
        })
    }

    /// Encrypts by a passphrase, which costs about a second for every file that is written or read.
    #[must_use]
    pub fn by_passphrase(passphrase: String) -> Self {
        Self::by_passphrase_with(passphrase, WORK)
    }

    fn by_passphrase_with(passphrase: String, work: u8) -> Self {
        Self {
            to: To::Passphrase(SecretString::from(passphrase), work),
            identities: Vec::new(),
        }
    }
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn sealed<'a>(
    recipients: impl Iterator<Item = &'a dyn Recipient>,
    plain: &[u8],
) -> Result<Vec<u8>, String> {
    let encryptor = Encryptor::with_recipients(recipients).map_err(told)?;
    let mut out = Vec::with_capacity(plain.len() + 1024);
    let mut writer = encryptor.wrap_output(&mut out).map_err(told)?;
    writer.write_all(plain).map_err(told)?;
    writer.finish().map_err(told)?;
    Ok(out)
}

impl Seal for AgeSeal {
    fn seal(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        match &self.to {
            To::Recipients(recipients) => {
                sealed(recipients.iter().map(|r| r as &dyn Recipient), plain)
            }
            To::Passphrase(passphrase, work) => {
                let mut recipient = scrypt::Recipient::new(passphrase.clone());
                recipient.set_work_factor(*work);
                sealed(std::iter::once(&recipient as &dyn Recipient), plain)
            }
        }
    }

    fn open(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        if bytes.starts_with(b"-----BEGIN") {
            return Err("it is in age's text form: age -d opens it".to_owned());
        }
        let decryptor = Decryptor::new(bytes).map_err(told)?;
        let mut reader = match &self.to {
            To::Recipients(_) => {
                let identities = self.identities.iter();
                decryptor.decrypt(identities.map(|i| i as &dyn Identity))
            }
            To::Passphrase(passphrase, _) => {
                let mut identity = scrypt::Identity::new(passphrase.clone());
                identity.set_max_work_factor(WORK_MAX);
                decryptor.decrypt(std::iter::once(&identity as &dyn Identity))
            }
        }
        .map_err(told)?;
        let mut plain = Vec::new();
        reader.read_to_end(&mut plain).map_err(told)?;
        Ok(plain)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use age::secrecy::ExposeSecret;

    use super::*;

    fn key() -> (String, String) {
        let identity = x25519::Identity::generate();
        let recipient = identity.to_public().to_string();
        (identity.to_string().expose_secret().to_owned(), recipient)
    }

    #[test]
    fn what_is_sealed_is_opened_by_its_keys_alone() {
        let ((ours, to_us), (theirs, to_them)) = (key(), key());
        let seal = AgeSeal::to_recipients([&*to_us, &*to_them], [&*ours]).unwrap();
        let bytes = seal.seal(b"what was said").unwrap();
        assert!(bytes.starts_with(b"age-encryption.org/v1"));
        assert!(!bytes.windows(4).any(|w| w == b"said"));
        assert_eq!(seal.open(&bytes).unwrap(), b"what was said");
        let other = AgeSeal::to_recipients([&*to_them], [&*theirs]).unwrap();
        assert_eq!(other.open(&bytes).unwrap(), b"what was said");
        let alone = AgeSeal::to_recipients([&*to_us], [&*ours]).unwrap();
        let bytes = alone.seal(b"x").unwrap();
        assert!(other.open(&bytes).is_err());
        let blind = AgeSeal::to_recipients([&*to_us], []).unwrap();
        assert!(blind.open(&bytes).is_err());
        let mut changed = bytes.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert!(alone.open(&changed).is_err());
        assert!(alone.open(&bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn a_passphrase_seals_too() {
        let by = |words: &str| AgeSeal::by_passphrase_with(words.to_owned(), 2);
        let bytes = by("fil rouge").seal(b"what was said").unwrap();
        assert_eq!(by("fil rouge").open(&bytes).unwrap(), b"what was said");
        assert!(by("fil bleu").open(&bytes).is_err());
    }

    #[test]
    fn what_is_no_key_is_told() {
        let of = |to: &str, by: &str| AgeSeal::to_recipients([to], [by]).err();
        let (identity, recipient) = key();
        assert_eq!(of(&recipient, &identity), None);
        assert!(matches!(
            of("ann", &identity),
            Some(AgeError::Recipient { .. })
        ));
        let told = of(&recipient, "AGE-SECRET-KEY-1X").unwrap();
        assert!(!told.to_string().contains("SECRET-KEY-1X"), "{told}");
        let nobody = AgeSeal::to_recipients([], []).err();
        assert_eq!(nobody, Some(AgeError::NoRecipient));
    }
}
