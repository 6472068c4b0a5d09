//! API keys: who may call a server, for which tenant and in which role (DESIGN §8).
//!
//! All keys of a store are one note, so that they live and are backed up with the data they open; of a key's secret
//! only a hash is kept.

use filrouge_store::Ledger;
use filrouge_types::{ErrorCode, Failure, IdentityId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::caller::{Caller, Permission};
use crate::engine::Keys;

mod text;

pub use text::{ApiKeyText, PresentedKey, SecretHash};

/// The note that holds the keys.
const NOTE: &str = "api_keys";
/// Most bytes of the note.
const NOTE_MAX: usize = 1 << 20;
/// Most bytes of a key's name.
const NAME_MAX: usize = 256;
/// How often a change is tried when others change the note at the same time.
const ATTEMPTS: usize = 20;

filrouge_types::words!(
    /// What a caller is to a server (DESIGN §8); what each may do is in `docs/access.md`.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Role: "role" {
        /// An application that acts for its end users.
        Service => "service",
        /// One end user.
        User => "user",
        /// Reads the whole tenant and writes nothing.
        Auditor => "auditor",
        /// May do everything in the tenant.
        Admin => "admin",
    }
);

/// A key as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiKey {
    /// Names the key; no secret.
    pub key_id: String,
    /// The hash of its secret.
    pub hash: SecretHash,
    /// What it is called by those who look after it.
    pub name: Option<String>,
    /// The one tenant it opens.
    pub tenant_id: TenantId,
    /// What its holder is.
    pub role: Role,
    /// The end user its holder is, for the role [`Role::User`].
    pub identity_id: Option<IdentityId>,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it opens nothing.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

impl ApiKey {
    /// Whether the key opens anything at `now`.
    #[must_use]
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

/// A key to be made; it opens the caller's tenant.
#[derive(Debug, Clone)]
pub struct NewApiKey {
    /// What it is called, at most 256 bytes without control characters.
    pub name: Option<String>,
    /// The role of its holder.
    pub role: Role,
    /// The end user; for the role [`Role::User`] and no other.
    pub identity_id: Option<IdentityId>,
    /// From when on it opens nothing.
    pub expires_at: Option<Timestamp>,
}

/// All keys of a store at a version of their note.
#[derive(Debug, Clone, Default)]
pub struct ApiKeys {
    /// The note's version; 0 when there never was a key.
    pub version: u64,
    /// The keys of all tenants, revoked ones too, oldest first.
    pub keys: Vec<ApiKey>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    keys: Vec<ApiKey>,
}

async fn load(ledger: &dyn Ledger) -> Result<ApiKeys, Failure> {
    let Some(note) = ledger.note(NOTE).await? else {
        return Ok(ApiKeys::default());
    };
    let stored: Stored = serde_json::from_slice(&note.value).map_err(|e| {
        // Where, not what: the text around it holds hashes.
        let place = format!("line {}, column {}", e.line(), e.column());
        Failure::new(
            ErrorCode::IntegrityError,
            format!("the API keys cannot be read: {place}"),
        )
    })?;
    Ok(ApiKeys {
        version: note.version,
        keys: stored.keys,
    })
}

fn invalid(what: impl Into<String>) -> Failure {
    Failure::new(ErrorCode::Invalid, what)
}

impl NewApiKey {
    fn check(&self, now: Timestamp) -> Result<(), Failure> {
        if let Some(name) = &self.name
            && (name.is_empty() || name.len() > NAME_MAX || name.chars().any(char::is_control))
        {
            return Err(invalid(format!(
                "a key's name has 1 to {NAME_MAX} bytes and no control characters"
            )));
        }
        match (self.role, &self.identity_id) {
            (Role::User, None) => Err(invalid("a key with the role user needs an identity")
                .with_hint("name the end user: --identity ID")),
            (Role::User, Some(_)) | (_, None) => Ok(()),
            (role, Some(_)) => Err(invalid(format!("the role {role} is bound to no identity"))
                .with_hint("a service names the end user in each request, with Filrouge-Identity")),
        }?;
        match self.expires_at {
            Some(end) if end <= now => Err(invalid("a key cannot expire in the past")),
            _ => Ok(()),
        }
    }
}

impl Keys {
    /// Makes a key. Its text is given here and never again.
    ///
    /// # Errors
    /// `invalid`, `limit_exceeded` when the store has no room for more keys, and the ledger's.
    pub async fn create(
        &self,
        caller: &Caller,
        new: NewApiKey,
    ) -> Result<(ApiKey, ApiKeyText), Failure> {
        let tenant_id = caller.scope(Permission::Administer)?.tenant;
        let now = self.clock.now();
        new.check(now)?;
        let (text, key_id, hash) = ApiKeyText::random(self.entropy.as_ref())?;
        let key = ApiKey {
            key_id,
            hash,
            name: new.name,
            tenant_id,
            role: new.role,
            identity_id: new.identity_id,
            created_at: now,
            expires_at: new.expires_at,
            revoked_at: None,
        };
        self.change_api_keys(|keys| {
            keys.push(key.clone());
            Ok(())
        })
        .await?;
        tracing::info!(key_id = key.key_id, role = %key.role, tenant_id = %key.tenant_id, "an API key was made");
        Ok((key, text))
    }

    /// All keys of the store: for who authenticates callers.
    ///
    /// # Errors
    /// The ledger's; `integrity_error` when the note holds something else.
    pub async fn all(&self) -> Result<ApiKeys, Failure> {
        load(self.ledger.as_ref()).await
    }

    /// The tenant's keys, revoked ones too, oldest first.
    ///
    /// # Errors
    /// As [`Self::all`].
    pub async fn list(&self, caller: &Caller) -> Result<Vec<ApiKey>, Failure> {
        let tenant = caller.scope(Permission::Administer)?.tenant;
        let mut keys = self.all().await?.keys;
        keys.retain(|key| key.tenant_id == tenant);
        Ok(keys)
    }

    /// Revokes a key for good; one that is revoked already stays as it is.
    ///
    /// # Errors
    /// `invalid` when the tenant has no such key, and the ledger's.
    pub async fn revoke(&self, caller: &Caller, key_id: &str) -> Result<ApiKey, Failure> {
        let tenant = &caller.scope(Permission::Administer)?.tenant;
        let now = self.clock.now();
        let revoked = self
            .change_api_keys(|keys| {
                let key = keys
                    .iter_mut()
                    .find(|key| key.tenant_id == *tenant && key.key_id == key_id)
                    .ok_or_else(|| {
                        invalid(format!(
                            "there is no key {key_id:?} in the tenant {tenant:?}"
                        ))
                        .with_hint("`filrouge keys list` shows the keys of a tenant")
                    })?;
                key.revoked_at.get_or_insert(now);
                Ok(key.clone())
            })
            .await?;
        tracing::info!(key_id, tenant_id = %tenant, "an API key was revoked");
        Ok(revoked)
    }

    /// Compare and set, again when somebody else was first.
    async fn change_api_keys<R>(
        &self,
        change: impl Fn(&mut Vec<ApiKey>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        for _ in 0..ATTEMPTS {
            let ApiKeys { version, mut keys } = self.all().await?;
            let result = change(&mut keys)?;
            let value = serde_json::to_vec(&Stored { keys })
                .map_err(|e| Failure::new(ErrorCode::Internal, e.to_string()))?;
            if value.len() > NOTE_MAX {
                return Err(Failure::new(
                    ErrorCode::LimitExceeded,
                    "the store has no room for more API keys",
                )
                .with_hint("give many end users one service key and Filrouge-Identity, or JWT"));
            }
            if self.ledger.put_note(NOTE, version, value).await? {
                return Ok(result);
            }
        }
        Err(Failure::new(
            ErrorCode::Overloaded,
            "others change the API keys all the time; nothing was changed",
        ))
    }
}

#[cfg(test)]
mod tests;
