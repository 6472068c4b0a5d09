//! The secret in a share's address: `<share id><secret>`, letters and digits only.

use filrouge_store::Entropy;
use filrouge_types::Failure;
use secrecy::{ExposeSecret, SecretString};

use crate::api_keys::{SecretHash, random_text};

/// The length of a share's id, in characters.
const ID_CHARS: usize = 12;
/// The length of the secret, in characters: 62^43 is just above 2^256.
const SECRET_CHARS: usize = 43;

/// A share's id and secret as text. Only [`ShareToken::expose`] shows it.
#[derive(Debug)]
pub struct ShareToken(SecretString);

/// The parsed text that a visitor presented.
pub(super) struct PresentedToken<'a> {
    /// The share's id, which is not secret.
    pub(super) share_id: &'a str,
    /// The hash of the secret.
    pub(super) hash: SecretHash,
}

fn hash(secret: &str) -> SecretHash {
    SecretHash::for_purpose(b"filrouge share 1\0", secret)
}

impl ShareToken {
    /// Generates a random token: its text, the share's id, and the hash of the secret.
    ///
    /// # Errors
    /// `internal` when the system provides no randomness.
    pub(super) fn random(entropy: &dyn Entropy) -> Result<(Self, String, SecretHash), Failure> {
        let share_id = random_text(entropy, ID_CHARS)?;
        let secret = random_text(entropy, SECRET_CHARS)?;
        let text = format!("{share_id}{secret}");
        Ok((Self(text.into()), share_id, hash(&secret)))
    }

    /// The text itself, to show it to the creator once.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl<'a> PresentedToken<'a> {
    /// Parses a token; `None` when it does not have the form of one.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let has_form = text.len() == ID_CHARS + SECRET_CHARS
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let (share_id, secret) = has_form.then(|| text.split_at(ID_CHARS))?;
        let hash = hash(secret);
        Some(Self { share_id, hash })
    }
}

#[cfg(test)]
mod tests {
    use filrouge_store::OsEntropy;

    use super::*;

    #[test]
    fn only_a_complete_token_is_parsed() {
        let (token, share_id, hash) = ShareToken::random(&OsEntropy).unwrap();
        let text = token.expose().to_owned();
        let presented = PresentedToken::parse(&text).unwrap();
        assert_eq!(presented.share_id, share_id);
        assert!(presented.hash.matches(&hash));
        assert!(!format!("{token:?} {hash:?}").contains(&text[ID_CHARS..]));
        for wrong in [
            "",
            &text[1..],
            &format!("{text}x"),
            &format!("{}-", &text[1..]),
            &format!("{}é", &text[..text.len() - 2]),
        ] {
            assert!(PresentedToken::parse(wrong).is_none(), "{wrong:?}");
        }
    }
}
