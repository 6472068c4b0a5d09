//! Checks the credentials of requests. They are API keys of the store, or tokens of an issuer. While the store has no
//! keys and no issuer is configured, a request needs none.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use axum::http::{HeaderMap, header};
use filrouge_engine::Engine;
use filrouge_engine::api_keys::{ApiKeys, KeptKeys, PresentedKey, Role, SignIns};
use filrouge_engine::caller::{CallerRole, Permission};
use filrouge_types::{Clock, ErrorCode, TenantId, Timestamp};
use tokio::sync::watch;

use self::current::{keep_issuer_keys_current, keep_keys_current};
use self::kept::{keep, without_store};
use self::key_table::KeyTable;
use super::bearer::credentials;
use super::credential::{Credential, Subject};
use super::jwt::{JwtError, JwtSettings, Verifier};
use super::loopback;
use super::principal::Principal;
use crate::cors::AllowedOrigin;
use crate::problem::Problem;

mod current;
mod kept;
mod key_table;
mod sign_in;

/// The hint for a request without valid credentials.
const CREDENTIALS_HINT: &str = "send the header Authorization: Bearer with an API key (`filrouge keys create` makes one) or a token";

/// The settings of authentication.
#[derive(Debug, Clone)]
pub struct AccessSettings {
    /// The tenant of all callers while the server needs no credentials.
    pub tenant: TenantId,
    /// The allowed origins of browser pages, in addition to this machine's.
    pub origins: Vec<AllowedOrigin>,
    /// The issuer of tokens, if there is one.
    pub jwt: Option<JwtSettings>,
    /// Whether the store had API keys when it was last open, for a store that does not answer. `None` for any other.
    pub had_keys: Option<bool>,
    /// The file in which the API keys are kept for a start while the store does not answer; `None` keeps none.
    pub kept: Option<KeptKeys>,
}

/// Authenticates callers. Clones are handles to the same state.
#[derive(Clone)]
pub struct Authority(Arc<Shared>);

struct Shared {
    /// Whether the store is known to have API keys although they could not be read yet.
    had_keys: bool,
    kept: Option<KeptKeys>,
    local_credential: Arc<Credential>,
    /// The credential of a browser on this machine, while no request needs credentials.
    local_browser: Arc<Credential>,
    sign_ins: SignIns,
    origins: Vec<AllowedOrigin>,
    keys: RwLock<Arc<KeyTable>>,
    changes: watch::Sender<u64>,
    verifier: Option<Verifier>,
    clock: Arc<dyn Clock>,
    refused: AtomicU64,
}

impl Authority {
    /// Reads the API keys and the issuer's keys, and reloads both when they change, as long as a clone of this handle
    /// exists.
    ///
    /// Until the API keys were read for the first time, all callers with API keys are refused; without an issuer, all
    /// callers, unless the store does not answer and had no API keys when it was last open, or the keys that this
    /// machine has seen are kept and not too old.
    ///
    /// # Errors
    /// [`JwtError`] if the settings of the issuer are unusable.
    pub async fn start(
        engine: Arc<Engine>,
        clock: Arc<dyn Clock>,
        settings: AccessSettings,
    ) -> Result<Self, JwtError> {
        let verifier = match settings.jwt {
            Some(jwt) => Some(Verifier::start(jwt).await?),
            None => None,
        };
        // The subscription precedes the first read, so that no change in between is missed.
        let commits = engine.upkeep.commits();
        let mut had_keys = settings.had_keys;
        let keys = match engine.keys.all().await {
            Ok(stored) => {
                keep(settings.kept.clone(), &stored, clock.now()).await;
                KeyTable::from_stored(stored, None)
            }
            Err(failure) if had_keys.is_some() && failure.code == ErrorCode::StoreUnavailable => {
                without_store(settings.kept.as_ref(), &mut had_keys, failure, clock.now())
            }
            Err(failure) => {
                tracing::error!(%failure, "the API keys cannot be read; all callers are refused until they can be");
                KeyTable::NotLoaded(failure)
            }
        };
        let shared = Arc::new(Shared {
            had_keys: had_keys == Some(true),
            kept: settings.kept,
            origins: settings.origins,
            verifier,
            ..Shared::without_credentials(&engine, clock, settings.tenant, keys)
        });
        tokio::spawn(keep_keys_current(Arc::downgrade(&shared), engine, commits));
        if shared.verifier.is_some() {
            tokio::spawn(keep_issuer_keys_current(Arc::downgrade(&shared)));
        }
        Ok(Self(shared))
    }

    /// Accepts every caller on this machine, as a server without keys does, even if the store has API keys: for requests
    /// that this process makes itself.
    pub fn trusting(engine: &Engine, clock: Arc<dyn Clock>, tenant: TenantId) -> Self {
        let no_keys = KeyTable::from_stored(ApiKeys::default(), None);
        let shared = Shared::without_credentials(engine, clock, tenant, no_keys);
        Self(Arc::new(shared))
    }

    /// Whether every request needs credentials. It does if an API key was ever created, even if all are revoked now or
    /// none could be read yet, or if an issuer is configured.
    pub fn requires_credentials(&self) -> bool {
        let version = self.0.keys().version();
        self.0.verifier.is_some() || version.map_or(self.0.had_keys, |version| version > 0)
    }

    /// A counter that increases whenever changed API keys were read.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// The number of requests that were refused because they had no valid credentials.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Why the newest fetch of the issuer's keys failed, so that valid tokens may be refused; `None` if it succeeded.
    pub fn last_issuer_failure(&self) -> Option<String> {
        self.0.verifier.as_ref().and_then(Verifier::last_failure)
    }

    /// Which API keys are used while the store does not answer, if they are kept ones.
    pub fn kept_keys(&self) -> Option<String> {
        let until = self.0.keys().kept_until()?;
        Some(format!(
            "the API keys are those that this machine has last seen, and are used until {until}; later changes are unknown"
        ))
    }

    pub(super) fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Authenticates a request, and returns its principal.
    ///
    /// # Errors
    /// `unauthenticated`, with the same text for every cause; `forbidden` for the name of another host while the server
    /// needs no credentials; the ledger's failure until the API keys were read for the first time.
    pub async fn authenticate(&self, headers: &HeaderMap) -> Result<Principal, Problem> {
        self.principal(headers, &self.0.local_credential).await
    }

    /// Like [`Self::authenticate`], for a request of a browser: its sign-in is accepted too, and while the server needs
    /// no credentials, the caller is the operator.
    ///
    /// # Errors
    /// As [`Self::authenticate`].
    pub(super) async fn authenticate_browser(
        &self,
        headers: &HeaderMap,
    ) -> Result<Principal, Problem> {
        match self.0.verify_sign_in(headers) {
            Some(credential) => Ok(Principal::new(credential, self.clone())),
            None => self.principal(headers, &self.0.local_browser).await,
        }
    }

    async fn principal(
        &self,
        headers: &HeaderMap,
        local: &Arc<Credential>,
    ) -> Result<Principal, Problem> {
        let keys = self.0.keys();
        let credential = match keys.as_ref() {
            _ if self.0.verifier.is_some() => self.0.verify_bearer(&keys, headers).await,
            KeyTable::NotLoaded(failure) => {
                if !self.0.had_keys {
                    self.check_loopback(headers)?;
                }
                return Err(failure.clone().into());
            }
            KeyTable::Loaded { version: 0, .. } => {
                self.check_loopback(headers)?;
                Some(local.clone())
            }
            KeyTable::Loaded { .. } => self.0.verify_bearer(&keys, headers).await,
        };
        match credential {
            Some(credential) => Ok(Principal::new(credential, self.clone())),
            None => {
                self.0.refused.fetch_add(1, Ordering::Relaxed);
                let detail = "the request has no valid credentials";
                Err(Problem::new(ErrorCode::Unauthenticated, detail).with_hint(CREDENTIALS_HINT))
            }
        }
    }

    /// Checks that the request's `Host` is a name of this machine, unless every request needs credentials.
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

    /// The allowed origins of browser pages, in addition to this machine's.
    pub fn origins(&self) -> &[AllowedOrigin] {
        &self.0.origins
    }

    /// Whether a request comes from a browser page whose origin is configured.
    pub fn allows_origin(&self, headers: &HeaderMap) -> bool {
        let origin = headers.get(header::ORIGIN);
        origin.is_some_and(|origin| self.0.origins.iter().any(|known| known.0 == origin))
    }

    /// Whether the caller may see the reasons why the server is degraded. While no credentials are needed, or the API
    /// keys were not read yet, all callers are on this machine; every one may, except one that acts for an end user.
    pub async fn may_observe(&self, headers: &HeaderMap) -> bool {
        if !self.requires_credentials() {
            return !headers.contains_key("filrouge-identity");
        }
        match self.authenticate(headers).await {
            Ok(principal) => principal.end_user(headers).is_ok_and(|identity| {
                principal
                    .caller(identity)
                    .has_permission(Permission::Observe)
            }),
            Err(_) => false,
        }
    }

    /// Whether the credential is still valid.
    pub(super) fn accepts(&self, credential: &Credential) -> bool {
        let now = self.0.clock.now();
        if credential.expires_at.is_some_and(|end| now >= end) {
            return false;
        }
        match (&credential.subject, self.0.keys().as_ref()) {
            (Subject::Local, _) => !self.requires_credentials(),
            (Subject::Token(_), _) => true,
            (Subject::Key(id), KeyTable::Loaded { by_id, .. }) => by_id
                .get(&**id)
                .is_some_and(|entry| entry.key.is_valid(now)),
            (Subject::Key(_), KeyTable::NotLoaded(_)) => false,
        }
    }
}

impl Shared {
    /// The state without an issuer, and without allowed origins.
    fn without_credentials(
        engine: &Engine,
        clock: Arc<dyn Clock>,
        tenant: TenantId,
        keys: KeyTable,
    ) -> Self {
        let local_credential = Credential {
            tenant,
            holder: CallerRole::Local,
            subject: Subject::Local,
            identity: None,
            expires_at: None,
        };
        // A browser names no end user, and shows its user what the command line would.
        let local_browser = Credential {
            holder: CallerRole::Role(Role::Admin),
            ..local_credential.clone()
        };
        Self {
            had_keys: false,
            kept: None,
            local_credential: Arc::new(local_credential),
            local_browser: Arc::new(local_browser),
            sign_ins: engine.keys.sign_ins(),
            origins: Vec::new(),
            keys: RwLock::new(Arc::new(keys)),
            changes: watch::Sender::new(0),
            verifier: None,
            clock,
            refused: AtomicU64::new(0),
        }
    }

    fn keys(&self) -> Arc<KeyTable> {
        self.keys
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    async fn verify_bearer(&self, keys: &KeyTable, headers: &HeaderMap) -> Option<Arc<Credential>> {
        self.verify_text(keys, credentials(headers)?).await
    }

    /// The credential of an API key or a token; `None` if the text is neither, or not valid any more.
    async fn verify_text(&self, keys: &KeyTable, text: &str) -> Option<Arc<Credential>> {
        let now = self.clock.now();
        if PresentedKey::has_prefix(text) {
            return self.verify_key(keys, text, now);
        }
        self.verifier.as_ref()?.verify(text, now).await
    }

    fn verify_key(&self, keys: &KeyTable, text: &str, now: Timestamp) -> Option<Arc<Credential>> {
        let presented = PresentedKey::parse(text)?;
        let entry = keys.entry(presented.key_id)?;
        let valid = presented.hash.matches(&entry.key.hash) && entry.key.is_valid(now);
        valid.then(|| entry.credential.clone())
    }

    fn replace_keys(&self, keys: KeyTable) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
        self.changes.send_modify(|count| *count += 1);
    }
}

#[cfg(test)]
mod tests;
