//! Imports a bundle: an export of the session yields the same items, and the chain stays unchanged.

use std::sync::Arc;

use filrouge_store::command::{Outcome, Write};
use filrouge_types::{Failure, Session};

use super::sign::PublicKey;
use super::verify::{CheckedBundle, SignedBy, check};
use crate::caller::{Caller, Permission};
use crate::core::unexpected;
use crate::engine::Bundles;

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedBundle {
    /// The session.
    pub session: Session,
    /// Whether the session is new in the ledger; `false` if the ledger already had all of the bundle.
    pub created: bool,
    /// The signer.
    pub signed_by: SignedBy,
}

impl Bundles {
    /// Imports the session of a bundle, if the bundle is unchanged; with `key`, only if that key signed it. Items that
    /// the ledger already has are not changed.
    ///
    /// # Errors
    /// `integrity_error` for a broken bundle, naming the place; `invalid` for one of another version or another tenant;
    /// `session_conflict` when the ledger's session does not extend the bundle; the ledger's failures.
    pub async fn import(
        &self,
        caller: &Caller,
        bundle: &[u8],
        key: Option<PublicKey>,
    ) -> Result<ImportedBundle, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let CheckedBundle {
            adopt, signed_by, ..
        } = check(bundle, key).await?;
        let stored = self.write(scope, Write::Adopt(Arc::new(adopt))).await?;
        match stored.outcome {
            Outcome::Session {
                session, created, ..
            } => Ok(ImportedBundle {
                session: *session,
                created,
                signed_by,
            }),
            _ => Err(unexpected()),
        }
    }
}
