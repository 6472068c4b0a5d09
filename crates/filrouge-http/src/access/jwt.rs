//! Verifies tokens of an issuer (RFC 7519). The result is cached by the token's hash, until the token expires or the
//! issuer's keys change.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use filrouge_engine::api_keys::Role;
use filrouge_engine::caller::CallerRole;
use filrouge_types::{IdentityId, TenantId, Timestamp, lock};
use jsonwebtoken::{Algorithm, Header, Validation};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::credential::{Credential, Subject};
use super::jwks::{Fetcher, KeySet, RSA_ALGORITHMS};
pub use super::jwks::{JwksSource, JwtError};

mod ring_verifier;

/// The minimum time between two fetches of the issuer's keys.
const FETCH_GAP: Duration = Duration::from_secs(30);
/// The age at which the issuer's keys are fetched again. It limits how long a key is used after the issuer has
/// withdrawn it.
const FETCH_EVERY: Duration = Duration::from_secs(300);

/// A signature algorithm that uses a public key. No other algorithm is ever accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JwtAlgorithm(Algorithm);

impl JwtAlgorithm {
    /// All algorithms that can be accepted.
    pub fn all() -> Vec<Self> {
        let others = [Algorithm::ES256, Algorithm::ES384, Algorithm::EdDSA];
        let known = RSA_ALGORITHMS.iter().copied().chain(others);
        known.map(Self).collect()
    }
}

impl fmt::Display for JwtAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// The error for a text that does not name an algorithm that can be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot be accepted; known: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA"
)]
pub struct UnknownAlgorithm(String);

impl FromStr for JwtAlgorithm {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Self, UnknownAlgorithm> {
        let mut all = Self::all().into_iter();
        let known = all.find(|algorithm| algorithm.to_string() == text);
        known.ok_or_else(|| UnknownAlgorithm(text.to_owned()))
    }
}

/// The issuer whose tokens are accepted, and the meaning of their claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtSettings {
    /// The location of the issuer's keys.
    pub jwks: JwksSource,
    /// The required value of `iss`.
    pub issuer: String,
    /// A value that `aud` must contain.
    pub audience: String,
    /// The tenant of all tokens; a token that names another one is refused. If `None`, each token must name its tenant.
    pub tenant: Option<TenantId>,
    /// The claim that names the tenant.
    pub tenant_claim: String,
    /// The claim that names the end user.
    pub identity_claim: String,
    /// The claim that names the role. If `None`, or if a token lacks the claim, the role is `user`.
    pub role_claim: Option<String>,
    /// The tolerated difference between clocks.
    pub leeway: Duration,
    /// The accepted algorithms.
    pub algorithms: Vec<JwtAlgorithm>,
}

/// Verifies tokens.
pub(super) struct Verifier {
    settings: JwtSettings,
    fetcher: Fetcher,
    keys: RwLock<Arc<KeySet>>,
    /// When the newest fetch ended. Locked during a fetch, so that concurrent requests wait for one fetch and do not
    /// start more.
    last_fetch: tokio::sync::Mutex<Instant>,
    last_failure: Mutex<Option<String>>,
}

impl Verifier {
    /// Fetches the issuer's keys for the first time. If their source is an address and the fetch fails, it is retried
    /// later.
    ///
    /// # Errors
    /// [`JwtError`] if there can be no client for the address, or if the file of keys cannot be used.
    pub(super) async fn start(settings: JwtSettings) -> Result<Self, JwtError> {
        ring_verifier::install();
        let fetcher = Fetcher::new(settings.jwks.clone())?;
        let verifier = Self {
            fetcher,
            keys: RwLock::new(Arc::new(KeySet::new(Vec::new(), Vec::new()))),
            last_fetch: tokio::sync::Mutex::new(Instant::now()),
            last_failure: Mutex::new(None),
            settings,
        };
        let fetched = verifier.fetch().await;
        match (fetched, &verifier.settings.jwks) {
            (Err(error), JwksSource::File(_)) => Err(error),
            _ => Ok(verifier),
        }
    }

    /// The required value of `iss`.
    pub(super) fn issuer(&self) -> &str {
        &self.settings.issuer
    }

    pub(super) fn last_failure(&self) -> Option<String> {
        lock(&self.last_failure).clone()
    }

    /// Fetches the keys if the newest fetch was [`FETCH_EVERY`] ago, or if it failed and was [`FETCH_GAP`] ago.
    pub(super) async fn refresh_if_old(&self) {
        let min_age = if self.last_failure().is_some() {
            FETCH_GAP
        } else {
            FETCH_EVERY
        };
        self.refresh(min_age).await;
    }

    /// Fetches the keys if the newest fetch is at least `min_age` old.
    async fn refresh(&self, min_age: Duration) {
        let mut last_fetch = self.last_fetch.lock().await;
        if last_fetch.elapsed() < min_age {
            return;
        }
        // `fetch` itself keeps and logs the failure.
        let _ = self.fetch().await;
        *last_fetch = Instant::now();
    }

    async fn fetch(&self) -> Result<(), JwtError> {
        let fetched = self.fetcher.fetch().await;
        let replaced = fetched.and_then(|bytes| self.replace_keys(bytes));
        let mut last_failure = lock(&self.last_failure);
        *last_failure = replaced.as_ref().err().map(ToString::to_string);
        replaced.inspect_err(|error| {
            tracing::error!(%error, "the issuer's keys cannot be fetched; the known ones stay in use");
        })
    }

    /// Replaces the keys, if the fetched bytes differ from those of the known keys.
    fn replace_keys(&self, bytes: Vec<u8>) -> Result<(), JwtError> {
        if bytes != self.keys().bytes {
            let set = Arc::new(KeySet::parse(bytes)?);
            tracing::info!(issuer = %self.settings.issuer, "the issuer's keys were read");
            // The new set has an empty cache, so tokens that the old keys verified are verified again.
            *self.keys.write().unwrap_or_else(PoisonError::into_inner) = set;
        }
        Ok(())
    }

    fn keys(&self) -> Arc<KeySet> {
        self.keys
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns the credential of a token; `None` if the token is invalid for any reason.
    pub(super) async fn verify(&self, token: &str, now: Timestamp) -> Option<Arc<Credential>> {
        let hash: [u8; 32] = Sha256::digest(token).into();
        let mut keys = self.keys();
        if let Some(cached) = keys.verified.get(&hash) {
            return Some(cached).filter(|c| c.expires_at.is_some_and(|end| now < end));
        }
        let header = self.accepted_header(token)?;
        if keys.find(header.kid.as_deref(), header.alg).is_none() {
            self.refresh(FETCH_GAP).await;
            keys = self.keys();
        }
        let key = keys.find(header.kid.as_deref(), header.alg)?;
        let mut validation = Validation::new(header.alg);
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_audience(&[&self.settings.audience]);
        validation.set_required_spec_claims(&["iss", "aud", "exp"]);
        // `credential` compares the times, because it uses the clock that all other code uses.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        let claims: Map<String, Value> = jsonwebtoken::decode(token, &key.key, &validation)
            .ok()?
            .claims;
        let credential = Arc::new(self.credential(&claims, now)?);
        keys.verified.insert(hash, credential.clone());
        Some(credential)
    }

    /// The header of a token; `None` if its algorithm is not accepted, or if it requires extensions or compression.
    fn accepted_header(&self, token: &str) -> Option<Header> {
        let header = jsonwebtoken::decode_header(token).ok()?;
        let accepted = self.settings.algorithms.contains(&JwtAlgorithm(header.alg));
        let (encoded, _) = token.split_once('.')?;
        let members: Map<String, Value> =
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()?;
        // RFC 7515: a verifier that does not support a critical header must refuse the token. `zip` has a meaning only
        // in an encrypted token (RFC 7516). The parsed header does not distinguish `null` from an absent member.
        let is_extended = members.contains_key("crit") || members.contains_key("zip");
        (accepted && !is_extended).then_some(header)
    }

    /// Checks the claims of a token with a valid signature, and returns the credential that they describe.
    fn credential(&self, claims: &Map<String, Value>, now: Timestamp) -> Option<Credential> {
        let settings = &self.settings;
        let text_claim = |name: &str| claims.get(name).and_then(Value::as_str);
        if text_claim("iss") != Some(&settings.issuer) {
            return None;
        }
        let leeway = settings.leeway.as_secs_f64();
        let expires_at = timestamp(claims.get("exp")?.as_f64()? + leeway);
        let not_before = match claims.get("nbf") {
            None => None,
            Some(nbf) => Some(timestamp(nbf.as_f64()? - leeway)),
        };
        if now >= expires_at || not_before.is_some_and(|start| now < start) {
            return None;
        }
        let claimed = match claims.get(&settings.tenant_claim) {
            None => None,
            Some(tenant) => Some(TenantId::new(tenant.as_str()?).ok()?),
        };
        let tenant = match (&settings.tenant, claimed) {
            (Some(configured), Some(claimed)) if *configured != claimed => return None,
            (Some(configured), _) => configured.clone(),
            (None, claimed) => claimed?,
        };
        let role = match settings.role_claim.as_ref().and_then(|n| claims.get(n)) {
            None => Role::User,
            Some(role) => role.as_str()?.parse().ok()?,
        };
        let identity = match role {
            Role::User => Some(IdentityId::new(text_claim(&settings.identity_claim)?).ok()?),
            _ => None,
        };
        let subject = text_claim("sub").or_else(|| text_claim(&settings.identity_claim));
        // A NUL separates tenant and subject, since a tenant contains none. So the name also differs from every key's
        // id.
        let name = format!("{tenant}\0{}", subject.unwrap_or(""));
        Some(Credential {
            tenant,
            holder: CallerRole::Role(role),
            subject: Subject::Token(name.into()),
            identity,
            expires_at: Some(expires_at),
        })
    }
}

/// A time from seconds since 1970, possibly with a fraction (RFC 7519 §2).
#[expect(
    clippy::cast_possible_truncation,
    reason = "a value out of range becomes the nearest time"
)]
fn timestamp(seconds: f64) -> Timestamp {
    Timestamp::from_micros((seconds * 1e6) as i64)
}

#[cfg(test)]
mod tests;
