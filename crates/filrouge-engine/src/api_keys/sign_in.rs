//! Sign-ins of browsers: what a browser keeps in a cookie instead of the API key with which its user has signed in.

use filrouge_store::Keyring;
use filrouge_types::Timestamp;
use subtle::ConstantTimeEq;

use crate::engine::Keys;

/// Issues and verifies sign-ins: `KEY_ID.EXPIRY.MAC`, with the expiry in microseconds since 1970. Servers of one store
/// have the same keyring, so each accepts the sign-ins of the others, and none stores them.
pub struct SignIns(Keyring);

impl Keys {
    /// The sign-ins of this store.
    pub fn sign_ins(&self) -> SignIns {
        SignIns(self.ledger.keyring().clone())
    }
}

impl SignIns {
    /// The sign-in of a holder of the API key `key_id`, valid until `expires_at`.
    pub fn issue(&self, key_id: &str, expires_at: Timestamp) -> String {
        let mac = hex::encode(self.0.sign_in(key_id, expires_at));
        format!("{key_id}.{}.{mac}", expires_at.as_micros())
    }

    /// Returns the API key's id and the expiry of a sign-in, or `None` if it was not issued here or has expired. The
    /// caller checks that the key is still valid.
    pub fn verify<'a>(&self, text: &'a str, now: Timestamp) -> Option<(&'a str, Timestamp)> {
        let (key_id, rest) = text.split_once('.')?;
        let (expiry, mac) = rest.split_once('.')?;
        let expires_at = Timestamp::from_micros(expiry.parse().ok()?);
        let expected = hex::encode(self.0.sign_in(key_id, expires_at));
        let is_genuine: bool = expected.as_bytes().ct_eq(mac.as_bytes()).into();
        (is_genuine && now < expires_at).then_some((key_id, expires_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unchanged_sign_in_is_valid_and_only_until_its_expiry() {
        let sign_ins = SignIns(Keyring::single([7; 32]));
        let expiry = Timestamp::from_micros(1_000);
        let text = sign_ins.issue("abc", expiry);
        let (before, at) = (Timestamp::from_micros(999), expiry);
        assert_eq!(sign_ins.verify(&text, before), Some(("abc", expiry)));
        assert_eq!(sign_ins.verify(&text, at), None);
        let other_key = text.replacen("abc", "xyz", 1);
        let later = text.replacen("1000", "2000", 1);
        let no_mac = text.rsplit_once('.').unwrap().0;
        for changed in [other_key.as_str(), &later, no_mac, "", "..", "abc.1000."] {
            assert_eq!(sign_ins.verify(changed, before), None, "{changed}");
        }
        let of_another_store = SignIns(Keyring::single([8; 32]));
        assert_eq!(of_another_store.verify(&text, before), None);
    }
}
