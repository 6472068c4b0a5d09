//! API keys, which authenticate the callers of a server and give each a tenant and a role (DESIGN §8).
//!
//! All keys of a store are in one note, so that they are stored and backed up with the data that they give access to.
//! Only a hash of a key's secret is stored.

use filrouge_store::Ledger;
use filrouge_types::{ErrorCode, Failure, IdentityId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::caller::{Caller, Permission};
use crate::engine::Keys;
use crate::shared::{invalid, to_json};

mod kept;
mod sign_in;
mod text;

pub use kept::{KeptKeys, SeenKeys};
pub use sign_in::SignIns;
pub(crate) use text::random_text;
pub use text::{ApiKeyText, PresentedKey, SecretHash};

/// The note that stores the keys.
const NOTE: &str = "api_keys";
/// The note's maximum size in bytes.
const NOTE_MAX: usize = 1 << 20;
/// The maximum length of a key's name in bytes.
const NAME_MAX: usize = 256;
/// The maximum number of attempts to change the note while other writers change it.
const ATTEMPTS: usize = 20;

/// Whether the store has an API key, valid or not.
///
/// # Errors
/// When the store does not answer.
pub async fn any_exist(ledger: &dyn Ledger) -> Result<bool, Failure> {
    match ledger.note(NOTE).await {
        // A damaged note counts as keys; the code that reads the keys reports the damage.
        Err(failure) if failure.code == ErrorCode::IntegrityError => Ok(true),
        note => Ok(note?.is_some()),
    }
}

filrouge_types::words!(
    /// A caller's role on a server (DESIGN §8); `docs/access.md` shows the permissions of each.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Role: "role" {
        /// An application that acts for its end users.
        Service => "service",
        /// One end user.
        User => "user",
        /// Reads the entire tenant and writes nothing.
        Auditor => "auditor",
        /// Has every permission in the tenant.
        Admin => "admin",
    }
);

/// A stored key.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiKey {
    /// The key's public id.
    pub key_id: String,
    /// The hash of the key's secret.
    pub hash: SecretHash,
    /// The operators' name for the key.
    pub name: Option<String>,
    /// The only tenant that the key gives access to.
    pub tenant_id: TenantId,
    /// The role of its holder.
    pub role: Role,
    /// The end user whom the key identifies, for the role [`Role::User`].
    pub identity_id: Option<IdentityId>,
    /// When the key was created.
    pub created_at: Timestamp,
    /// The key is invalid from this moment on; `None` if it does not expire.
    pub expires_at: Option<Timestamp>,
    /// When the key was revoked.
    pub revoked_at: Option<Timestamp>,
}

impl ApiKey {
    /// Whether the key is valid at `now`.
    #[must_use]
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|expiry| now < expiry)
    }
}

/// The properties of a key to create. The key gives access to the caller's tenant.
#[derive(Debug, Clone)]
pub struct NewApiKey {
    /// The operators' name for the key: 1 to 256 bytes without control characters.
    pub name: Option<String>,
    /// The role of its holder.
    pub role: Role,
    /// The end user: required for the role [`Role::User`], refused for all others.
    pub identity_id: Option<IdentityId>,
    /// The key is invalid from this moment on; `None` if it does not expire.
    pub expires_at: Option<Timestamp>,
}

/// All keys of a store, at one version of their note.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiKeys {
    /// The note's version; 0 if no key was ever created.
    #[serde(skip)]
    pub version: u64,
    /// The keys of all tenants, revoked ones too, oldest first.
    pub keys: Vec<ApiKey>,
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
            Some(expiry) if expiry <= now => Err(invalid("a key cannot expire in the past")),
            _ => Ok(()),
        }
    }
}

impl Keys {
    /// Creates a key. Only this call returns the key's text, because the store has only a hash of the secret.
    ///
    /// # Errors
    /// `invalid`, `limit_exceeded` when the store has no room for more keys, and the ledger's errors.
    pub async fn create(
        &self,
        caller: &Caller,
        new_key: NewApiKey,
    ) -> Result<(ApiKey, ApiKeyText), Failure> {
        let tenant_id = caller.scope(Permission::Administer)?.tenant;
        let now = self.clock.now();
        new_key.check(now)?;
        let (text, key_id, hash) = ApiKeyText::random(self.entropy.as_ref())?;
        let key = ApiKey {
            key_id,
            hash,
            name: new_key.name,
            tenant_id,
            role: new_key.role,
            identity_id: new_key.identity_id,
            created_at: now,
            expires_at: new_key.expires_at,
            revoked_at: None,
        };
        self.change_api_keys(|keys| {
            keys.push(key.clone());
            Ok(())
        })
        .await?;
        tracing::info!(key_id = key.key_id, role = %key.role, tenant_id = %key.tenant_id, "an API key was created");
        Ok((key, text))
    }

    /// All keys of the store, for authentication.
    ///
    /// # Errors
    /// `integrity_error` when the note does not contain API keys, and the ledger's errors.
    pub async fn all(&self) -> Result<ApiKeys, Failure> {
        let Some(note) = self.ledger.note(NOTE).await? else {
            return Ok(ApiKeys::default());
        };
        let stored: ApiKeys = serde_json::from_slice(&note.value).map_err(|e| {
            // The message contains only the position, because the content has hashes of secrets.
            let (line, column) = (e.line(), e.column());
            let detail = format!("the API keys cannot be read: line {line}, column {column}");
            Failure::new(ErrorCode::IntegrityError, detail)
        })?;
        Ok(ApiKeys {
            version: note.version,
            ..stored
        })
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

    /// Revokes a key permanently; a key that is already revoked is not changed.
    ///
    /// # Errors
    /// `invalid` when the tenant has no such key, and the ledger's errors.
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

    /// Changes the keys by compare-and-set; retries up to [`ATTEMPTS`] times when another writer changed them first.
    async fn change_api_keys<R>(
        &self,
        change: impl Fn(&mut Vec<ApiKey>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        for _ in 0..ATTEMPTS {
            let mut stored = self.all().await?;
            let result = change(&mut stored.keys)?;
            let value = to_json(&stored)?.into_bytes();
            if value.len() > NOTE_MAX {
                return Err(Failure::new(
                    ErrorCode::LimitExceeded,
                    "the store has no room for more API keys",
                )
                .with_hint(
                    "let many end users share one service key with Filrouge-Identity, or use JWT",
                ));
            }
            if self.ledger.put_note(NOTE, stored.version, value).await? {
                return Ok(result);
            }
        }
        Err(Failure::new(
            ErrorCode::Overloaded,
            "other writers changed the API keys at every attempt; nothing was changed",
        ))
    }
}

#[cfg(test)]
mod tests;
