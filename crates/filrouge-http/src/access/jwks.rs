//! The public keys of an issuer of tokens (RFC 7517). Their fetch is limited in size and time.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use quick_cache::sync::Cache;
use serde::Deserialize;
use serde_json::Value;

use super::credential::Credential;
use crate::outgoing;

/// The maximum size of a key set in bytes.
const KEY_SET_MAX_BYTES: usize = 256 << 10;
/// The maximum number of keys in a set.
const KEY_SET_MAX_KEYS: usize = 100;
/// The maximum number of verified tokens that are cached.
const CACHED_TOKENS_MAX: usize = 20_000;
/// The timeout of a fetch.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// The minimum length of an RSA modulus in bytes: 2048 bits.
const RSA_MODULUS_MIN_BYTES: usize = 256;

/// The location of an issuer's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JwksSource {
    /// An `https:` or `http:` address without a credential, because it is displayed.
    Url(reqwest::Url),
    /// A file.
    File(PathBuf),
}

impl fmt::Display for JwksSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => url.fmt(f),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// Why an issuer's keys, or their settings, are unusable.
#[derive(Debug, thiserror::Error)]
pub enum JwtError {
    /// No HTTPS client can be created.
    #[error("no HTTPS client: {0}")]
    Client(reqwest::Error),
    /// The request for the keys failed.
    #[error("the issuer's keys cannot be fetched: {0}")]
    Fetch(reqwest::Error),
    /// The response has a status other than 200.
    #[error("the issuer's keys cannot be fetched: the answer has the status {0}")]
    Status(u16),
    /// The file of keys cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The set has more than 256 KiB or 100 keys.
    #[error("the issuer's key set is too large")]
    TooLarge,
    /// The set is not a JSON Web Key Set.
    #[error("the issuer's keys are no JSON Web Key Set")]
    Malformed,
    /// The set contains no usable key.
    #[error("the issuer's key set has no public key that can verify")]
    NoKey,
}

/// A public key that verifies signatures.
pub(super) struct VerifyingKey {
    kid: Option<String>,
    /// The algorithms for which the key may be used.
    algorithms: Vec<Algorithm>,
    pub(super) key: DecodingKey,
}

/// The algorithms of RSA keys.
pub(super) const RSA_ALGORITHMS: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// The keys of an issuer, as last fetched.
pub(super) struct KeySet {
    keys: Vec<VerifyingKey>,
    /// The bytes that were fetched, to recognize an unchanged set.
    pub(super) bytes: Vec<u8>,
    /// The credentials of tokens that these keys have verified, by the token's hash. The tokens themselves are not
    /// stored.
    pub(super) verified: Cache<[u8; 32], Arc<Credential>>,
}

impl KeySet {
    pub(super) fn new(keys: Vec<VerifyingKey>, bytes: Vec<u8>) -> Self {
        Self {
            keys,
            bytes,
            verified: Cache::new(CACHED_TOKENS_MAX),
        }
    }

    /// Returns the key that verifies a token: the one that the token names with `kid`, or without `kid` the only one
    /// for its algorithm. Returns `None` if no key matches, or several do.
    pub(super) fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Option<&VerifyingKey> {
        let mut matching = self.keys.iter().filter(|key| {
            key.algorithms.contains(&algorithm)
                && kid.is_none_or(|kid| key.kid.as_deref() == Some(kid))
        });
        match (matching.next(), matching.next()) {
            (Some(key), None) => Some(key),
            _ => None,
        }
    }

    pub(super) fn parse(bytes: Vec<u8>) -> Result<Self, JwtError> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let set: Set = serde_json::from_slice(&bytes).map_err(|_| JwtError::Malformed)?;
        if set.keys.len() > KEY_SET_MAX_KEYS {
            return Err(JwtError::TooLarge);
        }
        let count = set.keys.len();
        let keys: Vec<_> = set.keys.into_iter().filter_map(parse_key).collect();
        if keys.is_empty() {
            return Err(JwtError::NoKey);
        }
        if keys.len() < count {
            let left_out = count - keys.len();
            tracing::warn!(
                left_out,
                "keys of the issuer that cannot verify tokens were left out"
            );
        }
        Ok(Self::new(keys, bytes))
    }
}

/// Parses a key of a set. Returns `None` for a key that cannot verify tokens: a secret key, a key for encryption, a
/// weak key, and a key for algorithms that are not supported.
fn parse_key(value: Value) -> Option<VerifyingKey> {
    let declared = match value.get("alg") {
        None => None,
        Some(name) => Some(name.as_str()?.to_owned()),
    };
    let jwk: Jwk = serde_json::from_value(value).ok()?;
    if matches!(&jwk.common.public_key_use, Some(other) if *other != PublicKeyUse::Signature) {
        return None;
    }
    let supported = match &jwk.algorithm {
        AlgorithmParameters::RSA(rsa) => {
            let modulus = URL_SAFE_NO_PAD.decode(&rsa.n).ok()?;
            let significant_bytes = modulus.iter().skip_while(|byte| **byte == 0).count();
            RSA_ALGORITHMS
                .iter()
                .filter(|_| significant_bytes >= RSA_MODULUS_MIN_BYTES)
                .copied()
                .collect()
        }
        AlgorithmParameters::EllipticCurve(ec) if ec.curve == EllipticCurve::P256 => {
            vec![Algorithm::ES256]
        }
        AlgorithmParameters::EllipticCurve(ec) if ec.curve == EllipticCurve::P384 => {
            vec![Algorithm::ES384]
        }
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
            vec![Algorithm::EdDSA]
        }
        _ => Vec::new(),
    };
    let is_declared = |algorithm: &Algorithm| {
        declared
            .as_ref()
            .is_none_or(|n| *n == format!("{algorithm:?}"))
    };
    let algorithms: Vec<_> = supported.into_iter().filter(is_declared).collect();
    if algorithms.is_empty() {
        return None;
    }
    Some(VerifyingKey {
        kid: jwk.common.key_id.clone(),
        algorithms,
        key: DecodingKey::from_jwk(&jwk).ok()?,
    })
}

/// Fetches key sets from their source.
pub(super) enum Fetcher {
    Url(reqwest::Client, reqwest::Url),
    File(PathBuf),
}

impl Fetcher {
    pub(super) fn new(source: JwksSource) -> Result<Self, JwtError> {
        let url = match source {
            JwksSource::File(path) => return Ok(Self::File(path)),
            JwksSource::Url(url) => url,
        };
        if url.scheme() == "http" {
            tracing::warn!(
                host = url.host_str(),
                "the issuer's keys are fetched unencrypted: an attacker on the network can admit anyone"
            );
        }
        let client = outgoing::client(FETCH_TIMEOUT).map_err(JwtError::Client)?;
        Ok(Self::Url(client, url))
    }

    pub(super) async fn fetch(&self) -> Result<Vec<u8>, JwtError> {
        let path = match self {
            Self::Url(client, url) => return download(client, url).await,
            Self::File(path) => path,
        };
        let bytes = std::fs::read(path).map_err(|source| JwtError::File {
            path: path.display().to_string(),
            source,
        })?;
        if bytes.len() > KEY_SET_MAX_BYTES {
            return Err(JwtError::TooLarge);
        }
        Ok(bytes)
    }
}

fn fetch_error(error: reqwest::Error) -> JwtError {
    JwtError::Fetch(error.without_url())
}

async fn download(client: &reqwest::Client, url: &reqwest::Url) -> Result<Vec<u8>, JwtError> {
    let mut response = client.get(url.clone()).send().await.map_err(fetch_error)?;
    if response.status() != reqwest::StatusCode::OK {
        return Err(JwtError::Status(response.status().as_u16()));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(fetch_error)? {
        if bytes.len() + chunk.len() > KEY_SET_MAX_BYTES {
            return Err(JwtError::TooLarge);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
