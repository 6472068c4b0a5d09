//! Taking a bundle in: the same bytes come back, the chain stays as it is.

use std::sync::Arc;

use filrouge_store::command::{Outcome, Write};
use filrouge_types::{Failure, Session};

use super::sign::PublicKey;
use super::verify::{Checked, SignedBy, check};
use crate::caller::{Caller, Permission};
use crate::core::unexpected;
use crate::engine::Bundles;

/// What taking a bundle in did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedBundle {
    /// The session.
    pub session: Session,
    /// Whether it is new here; `false` when all of the bundle was here before.
    pub created: bool,
    /// Who signed it.
    pub signed_by: SignedBy,
}

impl Bundles {
    /// Takes in the session of a bundle, if all of it is as it was written; with `key`, only if that key signed it.
    /// What was taken in before is left as it is.
    ///
    /// # Errors
    /// `integrity_error` for a bundle that is broken, naming the place; `invalid` for one of another version or
    /// another tenant; `session_conflict` when the session here did not grow from it; the ledger's own.
    pub async fn import(
        &self,
        caller: &Caller,
        bundle: &[u8],
        key: Option<PublicKey>,
    ) -> Result<ImportedBundle, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let Checked {
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
