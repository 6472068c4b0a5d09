//! Snapshot files encrypted with age (<https://age-encryption.org/v1>): the `age` program reads them too.

use age::scrypt;
use age::secrecy::SecretString;

use super::Seal;

/// The cost of deriving a key from a passphrase: scrypt's work factor as an exponent of two, which takes about a
/// second.
const WORK_FACTOR: u8 = 18;
/// The highest accepted work factor of a file that someone else has written. Each step doubles the time to open it.
const WORK_FACTOR_MAX: u8 = 22;

/// Encrypts with a passphrase; each file written or read costs about a second.
pub struct AgeSeal {
    passphrase: SecretString,
    work_factor: u8,
}

impl AgeSeal {
    /// Encrypts with this passphrase.
    pub fn with_passphrase(passphrase: String) -> Self {
        Self {
            passphrase: SecretString::from(passphrase),
            work_factor: WORK_FACTOR,
        }
    }
}

fn error_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Seal for AgeSeal {
    fn seal(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let mut recipient = scrypt::Recipient::new(self.passphrase.clone());
        recipient.set_work_factor(self.work_factor);
        age::encrypt(&recipient, plain).map_err(error_text)
    }

    fn open(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        if bytes.starts_with(b"-----BEGIN") {
            return Err("it is in age's text form: age -d opens it".to_owned());
        }
        let mut identity = scrypt::Identity::new(self.passphrase.clone());
        identity.set_max_work_factor(WORK_FACTOR_MAX);
        age::decrypt(&identity, bytes).map_err(error_text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_file_opens_only_with_its_passphrase() {
        let seal = |passphrase: &str| AgeSeal {
            work_factor: 2,
            ..AgeSeal::with_passphrase(passphrase.to_owned())
        };
        let bytes = seal("fil rouge").seal(b"what was said").unwrap();
        assert!(bytes.starts_with(b"age-encryption.org/v1"));
        assert!(!bytes.windows(4).any(|w| w == b"said"));
        assert_eq!(seal("fil rouge").open(&bytes).unwrap(), b"what was said");
        assert!(seal("fil bleu").open(&bytes).is_err());
        let mut changed = bytes.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert!(seal("fil rouge").open(&changed).is_err());
        assert!(seal("fil rouge").open(&bytes[..bytes.len() - 1]).is_err());
    }
}
