//! The directory of shares: the note that says which session each usable address leads to.

use std::collections::BTreeMap;

use filrouge_store::Ledger;
use filrouge_types::{ErrorCode, Failure, SessionId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::api_keys::SecretHash;
use crate::notes::{change_note, read_note};

/// The note that stores the directory.
const NOTE: &str = "shares";
/// The maximum number of usable shares of a tenant.
const TENANT_MAX: usize = 1_000;

/// The usable shares of all tenants by id. One that is absent was revoked, has expired, or was never complete.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Directory(pub(super) BTreeMap<String, Entry>);

/// Where a share's address leads.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) tenant_id: TenantId,
    pub(super) session_id: SessionId,
    /// The hash of the secret in the address.
    pub(super) hash: SecretHash,
    /// The address is unusable from this moment on.
    pub(super) expires_at: Timestamp,
}

impl Directory {
    /// Reads the directory; it is empty if nobody has shared anything.
    ///
    /// # Errors
    /// `integrity_error`, and the ledger's errors.
    pub(super) async fn read(ledger: &dyn Ledger) -> Result<Self, Failure> {
        let note = read_note(ledger, NOTE).await?;
        Ok(note.map(|stored| stored.value).unwrap_or_default())
    }

    /// Adds a share, and removes those that have expired by `now`.
    ///
    /// # Errors
    /// `limit_exceeded` when the tenant has too many usable shares, or the note is full; and the ledger's errors.
    pub(super) async fn add(
        ledger: &dyn Ledger,
        share_id: &str,
        entry: &Entry,
        now: Timestamp,
    ) -> Result<(), Failure> {
        change_note(ledger, NOTE, |stored: Option<Self>| {
            let mut directory = stored.unwrap_or_default();
            directory.0.retain(|_, entry| now < entry.expires_at);
            let entries = directory.0.values();
            let of_tenant = entries.filter(|other| other.tenant_id == entry.tenant_id);
            if of_tenant.count() >= TENANT_MAX {
                let detail = format!("a tenant has at most {TENANT_MAX} usable shares");
                return Err(ErrorCode::LimitExceeded
                    .failure(detail)
                    .with_hint("revoke some, or share for a shorter time"));
            }
            directory.0.insert(share_id.to_owned(), entry.clone());
            Ok(Some(directory))
        })
        .await
    }

    /// Removes a share, so that its address is unusable; does nothing if it is absent.
    ///
    /// # Errors
    /// The ledger's errors.
    pub(super) async fn remove(ledger: &dyn Ledger, share_id: &str) -> Result<(), Failure> {
        change_note(ledger, NOTE, |stored: Option<Self>| {
            let mut directory = stored.unwrap_or_default();
            let removed = directory.0.remove(share_id);
            Ok(removed.map(|_| directory))
        })
        .await
    }
}
