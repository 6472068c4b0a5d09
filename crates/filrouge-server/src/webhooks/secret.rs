//! The secrets that sign messages, according to the Standard Webhooks specification.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretSlice};
use sha2::Sha256;

/// The prefix of a secret.
const PREFIX: &str = "whsec_";
/// The length of a secret in bytes, according to the specification.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// The maximum number of a webhook's secrets.
const SECRETS_MAX: usize = 4;

/// Why a text is not a list of secrets. The message does not contain the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// None, or more than four.
    #[error("a webhook has one secret, or two to {SECRETS_MAX} while one replaces another")]
    Number,
    /// A secret is malformed.
    #[error("a webhook's secret is {PREFIX} and 24 to 64 bytes in base64")]
    Malformed,
}

/// A secret that signs messages; never displayed.
#[derive(Clone)]
pub struct WebhookSecret(SecretSlice<u8>);

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret")
    }
}

impl WebhookSecret {
    fn parse(text: &str) -> Result<Self, SecretError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(SecretError::Malformed)?;
        let bytes = STANDARD
            .decode(encoded)
            .map_err(|_| SecretError::Malformed)?;
        if SECRET_BYTES.contains(&bytes.len()) {
            Ok(Self(bytes.into()))
        } else {
            Err(SecretError::Malformed)
        }
    }

    fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> Option<String> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.expose_secret()).ok()?;
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        Some(format!("v1,{signature}"))
    }
}

/// The secrets of a webhook, newest first.
#[derive(Debug, Clone)]
pub struct WebhookSecrets(Vec<WebhookSecret>);

impl std::str::FromStr for WebhookSecrets {
    type Err = SecretError;

    /// Parses secrets separated by white space.
    fn from_str(text: &str) -> Result<Self, SecretError> {
        let secrets: Result<Vec<_>, _> =
            text.split_whitespace().map(WebhookSecret::parse).collect();
        match secrets? {
            secrets if (1..=SECRETS_MAX).contains(&secrets.len()) => Ok(Self(secrets)),
            _ => Err(SecretError::Number),
        }
    }
}

impl WebhookSecrets {
    /// Returns the value of the header `webhook-signature`: one signature per secret.
    pub(super) fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let signatures: Vec<String> = self
            .0
            .iter()
            .filter_map(|secret| secret.sign(id, timestamp, body))
            .collect();
        signatures.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_equals_the_specifications_example() {
        let secrets: WebhookSecrets = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        let (id, timestamp) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330);
        assert_eq!(
            secrets.sign(id, timestamp, br#"{"test": 2432232314}"#),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    #[test]
    fn several_secrets_sign_during_a_rotation_and_none_is_displayed() {
        let (old, new) = (
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        );
        let secrets: WebhookSecrets = format!(" {new}\n{old}\n").parse().unwrap();
        let signatures = secrets.sign("id", 1, b"{}");
        let parts: Vec<&str> = signatures.split(' ').collect();
        assert_eq!(parts.len(), 2);
        assert_ne!(parts[0], parts[1]);
        let old_only: WebhookSecrets = old.parse().unwrap();
        assert_eq!(parts[1], old_only.sign("id", 1, b"{}"));
        assert_eq!(
            format!("{secrets:?}"),
            "WebhookSecrets([WebhookSecret, WebhookSecret])"
        );
    }

    #[test]
    fn an_invalid_secret_is_refused_without_being_displayed() {
        for bad in [
            "secret",
            "whsec_",
            "whsec_AAAA",
            "whsec_!!!!",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        ] {
            let error = bad.parse::<WebhookSecrets>().unwrap_err();
            assert_eq!(error, SecretError::Malformed);
            assert!(!error.to_string().contains("AAAA"));
        }
        assert_eq!(
            "".parse::<WebhookSecrets>().unwrap_err(),
            SecretError::Number
        );
        let five = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"; 5].join(" ");
        assert_eq!(
            five.parse::<WebhookSecrets>().unwrap_err(),
            SecretError::Number
        );
    }
}
