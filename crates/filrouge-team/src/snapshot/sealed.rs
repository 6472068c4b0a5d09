//! Snapshot files encrypted with age (<https://age-encryption.org/v1>): the `age` program reads them too.

use age::scrypt;
use age::secrecy::SecretString;

use super::Seal;

/// Work that the key of a passphrase costs, as a power of two: a second, about.
const WORK: u8 = 18;
/// The most that is spent on a passphrase of a file that somebody else has written.
const WORK_MAX: u8 = 22;

/// Encrypts by a passphrase, which costs about a second for every file that is written or read.
pub struct AgeSeal {
    passphrase: SecretString,
    work: u8,
}

impl AgeSeal {
    /// Encrypts by this passphrase.
    #[must_use]
    pub fn by_passphrase(passphrase: String) -> Self {
        Self {
            passphrase: SecretString::from(passphrase),
            work: WORK,
        }
    }
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Seal for AgeSeal {
    fn seal(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let mut recipient = scrypt::Recipient::new(self.passphrase.clone());
        recipient.set_work_factor(self.work);
        age::encrypt(&recipient, plain).map_err(told)
    }

    fn open(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        if bytes.starts_with(b"-----BEGIN") {
            return Err("it is in age's text form: age -d opens it".to_owned());
        }
        let mut identity = scrypt::Identity::new(self.passphrase.clone());
        identity.set_max_work_factor(WORK_MAX);
        age::decrypt(&identity, bytes).map_err(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_is_opened_by_its_passphrase_alone() {
        let by = |words: &str| AgeSeal {
            work: 2,
            ..AgeSeal::by_passphrase(words.to_owned())
        };
        let bytes = by("fil rouge").seal(b"what was said").unwrap();
        assert!(bytes.starts_with(b"age-encryption.org/v1"));
        assert!(!bytes.windows(4).any(|w| w == b"said"));
        assert_eq!(by("fil rouge").open(&bytes).unwrap(), b"what was said");
        assert!(by("fil bleu").open(&bytes).is_err());
        let mut changed = bytes.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert!(by("fil rouge").open(&changed).is_err());
        assert!(by("fil rouge").open(&bytes[..bytes.len() - 1]).is_err());
    }
}
