//! Tokens of an issuer (RFC 7519): verified once, known by their hash until they expire.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use filrouge_engine::api_keys::Role;
use filrouge_engine::caller::Holder;
use filrouge_types::{IdentityId, TenantId, Timestamp};
use jsonwebtoken::{Algorithm, Validation};
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::cache::{Cache, TokenHash};
use super::jwks::{Fetcher, KeySet};
pub use super::jwks::{JwksSource, JwtError};
use super::principal::{Credential, Subject};

mod verifying;

/// The issuer is not asked again before so long.
const FETCH_GAP: Duration = Duration::from_secs(30);
/// Keys that are older are fetched again, so that one that the issuer takes back does not verify for ever.
const FETCH_EVERY: Duration = Duration::from_secs(300);

/// A signature algorithm with a public key; others are never accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JwtAlgorithm(Algorithm);

impl JwtAlgorithm {
    const KNOWN: [(&'static str, Algorithm); 9] = [
        ("RS256", Algorithm::RS256),
        ("RS384", Algorithm::RS384),
        ("RS512", Algorithm::RS512),
        ("PS256", Algorithm::PS256),
        ("PS384", Algorithm::PS384),
        ("PS512", Algorithm::PS512),
        ("ES256", Algorithm::ES256),
        ("ES384", Algorithm::ES384),
        ("EdDSA", Algorithm::EdDSA),
    ];

    /// All that can be accepted.
    #[must_use]
    pub fn all() -> Vec<Self> {
        Self::KNOWN.iter().map(|(_, a)| Self(*a)).collect()
    }
}

impl fmt::Display for JwtAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// The text names no algorithm that can be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot be accepted; known: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA"
)]
pub struct UnknownAlgorithm(String);

impl FromStr for JwtAlgorithm {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Self, UnknownAlgorithm> {
        let known = Self::KNOWN.iter().find(|(name, _)| *name == text);
        known
            .map(|(_, algorithm)| Self(*algorithm))
            .ok_or_else(|| UnknownAlgorithm(text.to_owned()))
    }
}

/// Whose tokens are accepted, and what their claims mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtSettings {
    /// Where the issuer's keys are.
    pub jwks: JwksSource,
    /// What `iss` must be.
    pub issuer: String,
    /// What `aud` must hold.
    pub audience: String,
    /// The only tenant that tokens are for; without one, each token must name its own.
    pub tenant: Option<TenantId>,
    /// The claim that names the tenant.
    pub tenant_claim: String,
    /// The claim that names the end user.
    pub identity_claim: String,
    /// The claim that names the role; without one, everybody is a user.
    pub role_claim: Option<String>,
    /// How far clocks may be apart.
    pub leeway: Duration,
    /// The algorithms that are accepted.
    pub algorithms: Vec<JwtAlgorithm>,
}

/// Verifies tokens.
pub(super) struct Verifier {
    settings: JwtSettings,
    fetcher: Fetcher,
    keys: RwLock<Arc<KeySet>>,
    /// When the issuer was last asked; held while it is asked, so that many who wait cost one question.
    asked: tokio::sync::Mutex<Instant>,
    cache: Mutex<Cache>,
    failures: AtomicU64,
    failure: Mutex<Option<String>>,
}

/// The part of a token's header that is looked at.
#[derive(Deserialize)]
struct Head {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

impl Verifier {
    /// Fetches the keys for the first time. An address that does not answer is asked again later.
    ///
    /// # Errors
    /// [`JwtError`] for a file that is of no use, and an address that is none.
    pub(super) async fn start(settings: JwtSettings) -> Result<Self, JwtError> {
        verifying::install();
        let fetcher = Fetcher::new(settings.jwks.clone())?;
        let verifier = Self {
            fetcher,
            keys: RwLock::default(),
            asked: tokio::sync::Mutex::new(Instant::now()),
            cache: Mutex::default(),
            failures: AtomicU64::new(0),
            failure: Mutex::new(None),
            settings,
        };
        let fetched = verifier.fetch().await;
        match (fetched, &verifier.settings.jwks) {
            (Err(error), JwksSource::File(_)) => Err(error),
            _ => Ok(verifier),
        }
    }

    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Fetches the keys when they are old, or were not to be had the last time.
    pub(super) async fn refresh_if_old(&self) {
        let every = if self.failure().is_some() {
            FETCH_GAP
        } else {
            FETCH_EVERY
        };
        self.refresh(every).await;
    }

    async fn refresh(&self, gap: Duration) {
        let mut asked = self.asked.lock().await;
        if asked.elapsed() < gap {
            return;
        }
        // What failed is counted and logged where it does.
        let _ = self.fetch().await;
        *asked = Instant::now();
    }

    async fn fetch(&self) -> Result<(), JwtError> {
        let fetched = self.fetcher.fetch().await;
        let failure = match fetched {
            Ok(bytes) if bytes == self.keys().bytes => None,
            Ok(bytes) => match KeySet::parse(bytes) {
                Ok(set) => {
                    tracing::info!(issuer = %self.settings.issuer, "the issuer's keys were read");
                    *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
                    // What a key that is gone has signed counts no more.
                    self.cached().clear();
                    None
                }
                Err(error) => Some(error),
            },
            Err(error) => Some(error),
        };
        let mut known = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        *known = failure.as_ref().map(ToString::to_string);
        let Some(error) = failure else {
            return Ok(());
        };
        self.failures.fetch_add(1, Ordering::Relaxed);
        tracing::error!(%error, "the issuer's keys cannot be had; those that are known go on");
        Err(error)
    }

    fn keys(&self) -> Arc<KeySet> {
        self.keys
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn cached(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a token stands for; `None` when it is not to be believed, whatever the reason.
    pub(super) async fn verify(&self, token: &str, now: Timestamp) -> Option<Arc<Credential>> {
        let hash: TokenHash = Sha256::digest(token).into();
        if let Some(known) = self.cached().get(&hash) {
            return Some(known).filter(|c| c.expires_at.is_some_and(|end| now < end));
        }
        let (head, algorithm) = self.head(token)?;
        let mut keys = self.keys();
        if keys.find(head.kid.as_deref(), algorithm).is_none() {
            self.refresh(FETCH_GAP).await;
            keys = self.keys();
        }
        let key = keys.find(head.kid.as_deref(), algorithm)?;
        let mut validation = Validation::new(algorithm);
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_audience(&[&self.settings.audience]);
        validation.set_required_spec_claims(&["iss", "aud", "exp"]);
        // Times are compared below, by the clock that everything else goes by.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        let claims: Map<String, Value> = jsonwebtoken::decode(token, &key.key, &validation)
            .ok()?
            .claims;
        let credential = Arc::new(self.credential(&claims, now)?);
        let mut cache = self.cached();
        // Under the lock: keys that were taken back meanwhile have cleared the cache for good.
        if Arc::ptr_eq(&keys, &self.keys()) {
            cache.put(hash, credential.clone());
        } else {
            cache.remove(&hash);
        }
        Some(credential)
    }

    fn head(&self, token: &str) -> Option<(Head, Algorithm)> {
        let encoded = token.split('.').next()?;
        let head: Head = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()?;
        // RFC 7515: who does not understand what is critical must refuse.
        if head.crit.is_some() {
            return None;
        }
        let algorithm: JwtAlgorithm = head.alg.parse().ok()?;
        let accepted = self.settings.algorithms.contains(&algorithm);
        accepted.then_some((head, algorithm.0))
    }

    fn credential(&self, claims: &Map<String, Value>, now: Timestamp) -> Option<Credential> {
        let settings = &self.settings;
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        if text("iss") != Some(&settings.issuer) {
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
            (Some(only), Some(claimed)) if *only != claimed => return None,
            (Some(only), _) => only.clone(),
            (None, claimed) => claimed?,
        };
        let role = match settings.role_claim.as_ref().and_then(|n| claims.get(n)) {
            None => Role::User,
            Some(role) => role.as_str()?.parse().ok()?,
        };
        let identity = match role {
            Role::User => Some(IdentityId::new(text(&settings.identity_claim)?).ok()?),
            _ => None,
        };
        let subject = text("sub").or_else(|| text(&settings.identity_claim));
        // Neither a tenant nor a key's id holds NUL.
        let name = format!("{tenant}\0{}", subject.unwrap_or(""));
        Some(Credential {
            tenant,
            holder: Holder::Role(role),
            subject: Subject::Token(name.into()),
            identity,
            expires_at: Some(expires_at),
        })
    }
}

/// Seconds since 1970, which may have a fraction (RFC 7519 §2).
#[expect(
    clippy::cast_possible_truncation,
    reason = "what is out of range stands for the nearest time there is"
)]
fn timestamp(seconds: f64) -> Timestamp {
    Timestamp::from_micros((seconds * 1e6) as i64)
}

#[cfg(test)]
mod tests;
