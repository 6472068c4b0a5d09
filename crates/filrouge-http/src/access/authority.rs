//! Which credentials are accepted: API keys of the store, tokens of an issuer, or none while there are no keys.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use axum::http::{HeaderMap, header};
use filrouge_engine::Engine;
use filrouge_engine::api_keys::{ApiKey, ApiKeys, PresentedKey};
use filrouge_engine::caller::{Holder, Permission};
use filrouge_types::{Clock, ErrorCode, Failure, TenantId, Timestamp};
use tokio::sync::watch;

use super::bearer::credentials;
use super::jwt::{JwtError, JwtSettings, Verifier};
use super::loopback;
use super::principal::{Credential, Principal, Subject};
use crate::cors::AllowedOrigin;
use crate::problem::Problem;

/// The keys are read again at the latest after so long, whether or not a commit was seen.
const REFRESH_EVERY: Duration = Duration::from_secs(2);
/// Commits that follow each other quicker than this cost one reading.
const REFRESH_GAP: Duration = Duration::from_millis(100);

/// How callers are told apart.
#[derive(Debug, Clone)]
pub struct AccessSettings {
    /// The tenant of a server without keys.
    pub tenant: TenantId,
    /// The origins whose pages may call, besides those of this machine.
    pub origins: Vec<AllowedOrigin>,
    /// The issuer of tokens, if there is one.
    pub jwt: Option<JwtSettings>,
}

/// Who is let in. A handle; all clones are one.
#[derive(Clone)]
pub struct Authority(Arc<Shared>);

struct Shared {
    local: Arc<Credential>,
    origins: Vec<AllowedOrigin>,
    keys: RwLock<Arc<Keys>>,
    changes: watch::Sender<u64>,
    verifier: Option<Verifier>,
    clock: Arc<dyn Clock>,
    refused: AtomicU64,
}

/// What is known of the store's keys.
enum Keys {
    /// They could not be read yet: nobody is let in.
    Unread(Failure),
    /// As of a version of their note; version 0 has none.
    Read {
        version: u64,
        by_id: HashMap<Box<str>, KnownKey>,
    },
}

struct KnownKey {
    key: ApiKey,
    credential: Arc<Credential>,
}

impl Keys {
    fn of(found: ApiKeys) -> Self {
        let by_id = found.keys.into_iter().map(|key| {
            let credential = Credential {
                tenant: key.tenant_id.clone(),
                holder: Holder::Role(key.role),
                subject: Subject::Key(key.key_id.as_str().into()),
                identity: key.identity_id.clone(),
                expires_at: key.expires_at,
            };
            let credential = Arc::new(credential);
            (key.key_id.as_str().into(), KnownKey { key, credential })
        });
        Self::Read {
            version: found.version,
            by_id: by_id.collect(),
        }
    }

    fn version(&self) -> Option<u64> {
        match self {
            Self::Unread(_) => None,
            Self::Read { version, .. } => Some(*version),
        }
    }
}

impl Authority {
    /// Reads keys and issuer, and follows their changes for as long as a clone of this handle lives.
    ///
    /// A store that cannot be read yet lets nobody in until it can be.
    ///
    /// # Errors
    /// [`JwtError`] when the issuer's settings cannot work.
    pub async fn start(
        engine: Arc<Engine>,
        clock: Arc<dyn Clock>,
        settings: AccessSettings,
    ) -> Result<Self, JwtError> {
        let verifier = match settings.jwt {
            Some(jwt) => Some(Verifier::start(jwt).await?),
            None => None,
        };
        // Listened to before the first reading, so that no change falls in between.
        let commits = engine.upkeep.commits();
        let keys = match engine.keys.all().await {
            Ok(found) => Keys::of(found),
            Err(failure) => {
                tracing::error!(%failure, "the API keys cannot be read; nobody is let in until they can be");
                Keys::Unread(failure)
            }
        };
        let local = Credential {
            tenant: settings.tenant,
            holder: Holder::Local,
            subject: Subject::Local,
            identity: None,
            expires_at: None,
        };
        let shared = Arc::new(Shared {
            local: Arc::new(local),
            origins: settings.origins,
            keys: RwLock::new(Arc::new(keys)),
            changes: watch::Sender::new(0),
            verifier,
            clock,
            refused: AtomicU64::new(0),
        });
        tokio::spawn(follow_keys(Arc::downgrade(&shared), engine, commits));
        if shared.verifier.is_some() {
            tokio::spawn(follow_issuer(Arc::downgrade(&shared)));
        }
        Ok(Self(shared))
    }

    /// Whether every request needs credentials: a key was made once, or an issuer is configured.
    #[must_use]
    pub fn requires_credentials(&self) -> bool {
        self.0.verifier.is_some() || self.0.keys().version().is_some_and(|version| version > 0)
    }

    /// Counts up whenever keys were made or revoked.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// How many requests had no valid credentials.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// How often the issuer's keys could not be fetched.
    #[must_use]
    pub fn issuer_failures(&self) -> u64 {
        self.0.verifier.as_ref().map_or(0, Verifier::failures)
    }

    /// Why tokens may be refused that are good, if the issuer's newest keys could not be fetched.
    #[must_use]
    pub fn issuer_failure(&self) -> Option<String> {
        self.0.verifier.as_ref().and_then(Verifier::failure)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Who makes a request.
    ///
    /// # Errors
    /// `unauthenticated`, in the same words whatever is wrong; `forbidden` for a foreign host on a server
    /// without keys; the ledger's failure while the keys cannot be read.
    pub async fn authenticate(&self, headers: &HeaderMap) -> Result<Principal, Problem> {
        let keys = self.0.keys();
        let credential = match keys.as_ref() {
            _ if self.0.verifier.is_some() => self.0.bearer(&keys, headers).await,
            Keys::Unread(failure) => {
                self.check_loopback(headers)?;
                return Err(failure.clone().into());
            }
            Keys::Read { version: 0, .. } => {
                self.check_loopback(headers)?;
                Some(self.0.local.clone())
            }
            Keys::Read { .. } => self.0.bearer(&keys, headers).await,
        };
        match credential {
            Some(credential) => Ok(Principal::new(credential, self.clone())),
            None => {
                self.0.refused.fetch_add(1, Ordering::Relaxed);
                Err(unauthenticated())
            }
        }
    }

    /// As long as only this machine is answered: whether the request comes by its name.
    ///
    /// # Errors
    /// `forbidden`.
    pub(super) fn check_host(&self, headers: &HeaderMap) -> Result<(), Problem> {
        if self.requires_credentials() {
            return Ok(());
        }
        self.check_loopback(headers)
    }

    fn check_loopback(&self, headers: &HeaderMap) -> Result<(), Problem> {
        loopback::check(headers, self.allows_origin(headers))
    }

    /// The origins whose pages may call, besides those of this machine.
    #[must_use]
    pub fn origins(&self) -> &[AllowedOrigin] {
        &self.0.origins
    }

    /// Whether a request comes from a page whose origin is configured.
    #[must_use]
    pub fn allows_origin(&self, headers: &HeaderMap) -> bool {
        let origin = headers.get(header::ORIGIN);
        origin.is_some_and(|origin| self.0.origins.iter().any(|known| known.0 == origin))
    }

    /// Whether the caller may know what is wrong with the server. While the keys cannot be read, this machine may:
    /// it is the only one that is answered then.
    pub async fn may_observe(&self, headers: &HeaderMap) -> bool {
        if !self.requires_credentials() {
            return !headers.contains_key("filrouge-identity");
        }
        match self.authenticate(headers).await {
            Ok(principal) => principal
                .acts_for(headers)
                .is_ok_and(|identity| principal.caller(identity).may(Permission::Observe)),
            Err(_) => false,
        }
    }

    pub(super) fn accepts(&self, credential: &Credential) -> bool {
        let now = self.0.clock.now();
        if credential.expires_at.is_some_and(|end| now >= end) {
            return false;
        }
        match (&credential.subject, self.0.keys().as_ref()) {
            (Subject::Local, _) => !self.requires_credentials(),
            (Subject::Token(_), _) => true,
            (Subject::Key(id), Keys::Read { by_id, .. }) => by_id
                .get(&**id)
                .is_some_and(|known| known.key.is_valid(now)),
            (Subject::Key(_), Keys::Unread(_)) => false,
        }
    }
}

impl Shared {
    fn keys(&self) -> Arc<Keys> {
        self.keys
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    async fn bearer(&self, keys: &Keys, headers: &HeaderMap) -> Option<Arc<Credential>> {
        let text = credentials(headers)?;
        let now = self.clock.now();
        if PresentedKey::has_prefix(text) {
            let presented = PresentedKey::parse(text)?;
            let Keys::Read { by_id, .. } = keys else {
                return None;
            };
            let known = by_id.get(presented.key_id)?;
            let valid = presented.hash.matches(&known.key.hash) && known.key.is_valid(now);
            return valid.then(|| known.credential.clone());
        }
        self.verifier.as_ref()?.verify(text, now).await
    }

    fn put(&self, keys: Keys) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
        self.changes.send_modify(|count| *count += 1);
    }
}

fn unauthenticated() -> Problem {
    let hint = "send the header Authorization: Bearer with an API key (`filrouge keys create` makes one) or a token";
    Problem::new(
        ErrorCode::Unauthenticated,
        "the request has no valid credentials",
    )
    .with_hint(hint)
}

/// Reads the keys again when something was committed, so that no request has to.
async fn follow_keys(shared: Weak<Shared>, engine: Arc<Engine>, mut commits: watch::Receiver<u64>) {
    let mut failing = false;
    loop {
        // Without a ledger that tells, time alone does.
        let changed = tokio::time::timeout(REFRESH_EVERY, commits.changed()).await;
        if matches!(changed, Ok(Err(_))) {
            tokio::time::sleep(REFRESH_EVERY).await;
        }
        let found = engine.keys.all().await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        match found {
            Ok(found) => {
                failing = false;
                let known = shared.keys().version();
                // Keys that were there once stay needed, whatever becomes of their note.
                if known.is_none_or(|known| found.version > known) {
                    tracing::info!(keys = found.keys.len(), "the API keys were read");
                    shared.put(Keys::of(found));
                } else if known.is_some_and(|known| found.version < known) {
                    tracing::error!(
                        "the note of the API keys is older than it was; it is not believed"
                    );
                }
            }
            Err(failure) if !failing => {
                failing = true;
                tracing::error!(%failure, "the API keys cannot be read again; those that are known go on");
            }
            Err(_) => {}
        }
        drop(shared);
        tokio::time::sleep(REFRESH_GAP).await;
    }
}

async fn follow_issuer(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(REFRESH_EVERY).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        if let Some(verifier) = &shared.verifier {
            verifier.refresh_if_old().await;
        }
    }
}

#[cfg(test)]
mod tests;
