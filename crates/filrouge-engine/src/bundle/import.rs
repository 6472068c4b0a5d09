//! Imports a bundle. The chain stays unchanged: exporting the imported session yields the same items and links.

use std::sync::Arc;

use filrouge_store::command::{Outcome, Write};
use filrouge_types::{Failure, Session};

use super::sign::PublicKey;
use super::verify::{SignedBy, check_bundle};
use crate::caller::{Caller, Permission};
use crate::engine::Bundles;
use crate::shared::unexpected_outcome;

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
    /// `integrity_error`, with the place, for a broken bundle; `invalid` for a file that is no bundle, and for a bundle
    /// of another version or another tenant; `session_conflict` when the ledger already has the session, but not all
    /// items of the bundle; and the ledger's errors.
    pub async fn import(
        &self,
        caller: &Caller,
        bundle: &[u8],
        key: Option<PublicKey>,
    ) -> Result<ImportedBundle, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let checked = check_bundle(bundle, key).await?;
        let adopt = Write::Adopt(Arc::new(checked.adopt));
        let stored = self.write(scope, adopt).await?;
        match stored.outcome {
            Outcome::Session {
                session, created, ..
            } => Ok(ImportedBundle {
                session: *session,
                created,
                signed_by: checked.signed_by,
            }),
            _ => Err(unexpected_outcome()),
        }
    }
}
