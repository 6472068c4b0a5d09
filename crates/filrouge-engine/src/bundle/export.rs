//! Writes a bundle, section by section, from one consistent snapshot of the store.

use filrouge_store::read::{LedgerSnapshot, VerifiedSession, in_session};
use filrouge_store::record::MacCheck;
use filrouge_types::{ErrorCode, Failure, Session, SessionId};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::sign::{PublicKey, sign};
use super::{CHECKPOINTS, END, HEAD, ITEMS, OPENING, SIGNATURE, TURNS, item};
use crate::caller::{Caller, Permission};
use crate::engine::Bundles;
use crate::shared::to_json;

/// Receives a bundle's bytes as they are written; a failure aborts the export.
pub type Sink = Box<dyn FnMut(&str) -> Result<(), Failure> + Send>;

/// Writes a piece of a section's text.
type PieceSink<'a> = &'a mut dyn FnMut(&str) -> Result<(), Failure>;

/// The signed part of a bundle; contains a digest of each other section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignedHead {
    pub(super) tenant_id: String,
    pub(super) session_id: String,
    pub(super) last_seq: u64,
    /// The link of the newest item.
    pub(super) link: String,
    /// SHA-256 of the bytes of the section `session`. The next three members are the digests of the sections with the
    /// same names.
    pub(super) session: String,
    pub(super) turns: String,
    pub(super) items: String,
    pub(super) checkpoints: String,
    pub(super) key_id: u32,
    pub(super) public_key: String,
}

impl Bundles {
    /// Writes the bundle of a session to `sink`, in pieces. After a failure, `sink` may have received a part of the
    /// bundle. Returns the numbers of turns and items.
    ///
    /// # Errors
    /// `session_not_found`, `session_ephemeral` for a session that is not in the ledger, `integrity_error`,
    /// `key_missing` when there is no key to sign with, `invalid` when the store is read without checking MACs, and the
    /// errors of `sink`.
    pub async fn export(
        &self,
        caller: &Caller,
        session: &SessionId,
        mut sink: Sink,
    ) -> Result<(usize, usize), Failure> {
        let scope = &caller.scope(Permission::Read)?;
        self.check_in_ledger(scope, session).await?;

        self.ledger
            .query_session(scope, session, move |snapshot, scope, id| {
                let loaded = snapshot.get(scope, id)?;
                in_session(id, write(snapshot, &loaded, &mut sink))
            })
            .await
    }
}

fn write(
    snapshot: &LedgerSnapshot<'_>,
    loaded: &VerifiedSession,
    sink: &mut Sink,
) -> Result<(usize, usize), Failure> {
    if snapshot.check == MacCheck::Unverified {
        // A signature asserts that the content was verified.
        let detail = "a session that is read without checking MACs cannot be signed";
        return Err(Failure::new(ErrorCode::Invalid, detail)
            .with_hint("read it with its keyring, or export it as md or html"));
    }
    let key_id = snapshot.keyring.active();
    let public_key =
        PublicKey::from_keyring(snapshot.keyring, key_id).ok_or_else(no_signing_key)?;
    let session: Session = loaded.row.clone().with_head(&loaded.head);
    let session = write_section(sink, OPENING, |out| out(&to_json(&session)?))?;
    let (mut turn_count, mut item_count) = (0, 0);
    let turns = write_list(sink, TURNS, |write_element| {
        snapshot.for_each_turn(loaded, |turn| {
            turn_count += 1;
            write_element(&to_json(&turn)?)
        })
    })?;
    let items = write_list(sink, ITEMS, |write_element| {
        snapshot.for_each_chained_item(loaded, |chained| {
            item_count += 1;
            write_element(&item::write(&chained)?)
        })
    })?;
    let checkpoints = write_section(sink, CHECKPOINTS, |out| out("[]"))?;
    let head = to_json(&SignedHead {
        tenant_id: loaded.row.tenant_id.to_string(),
        session_id: loaded.row.session_id.to_string(),
        last_seq: loaded.head.last_seq,
        link: hex::encode(loaded.head.link),
        session,
        turns,
        items,
        checkpoints,
        key_id,
        public_key: public_key.to_string(),
    })?;
    let signature = sign(snapshot.keyring, key_id, &head).ok_or_else(no_signing_key)?;
    sink(HEAD)?;
    sink(&head)?;
    sink(SIGNATURE)?;
    sink(&format!("\"{signature}\""))?;
    sink(END)?;
    Ok((turn_count, item_count))
}

fn no_signing_key() -> Failure {
    ErrorCode::KeyMissing
        .failure("there is no key to sign the bundle with")
        .with_hint("put the keyring file back, or export as md or html")
}

/// Writes the `opening` of a section and its content; returns the SHA-256 of the content's bytes.
fn write_section(
    sink: &mut Sink,
    opening: &str,
    write: impl FnOnce(PieceSink<'_>) -> Result<(), Failure>,
) -> Result<String, Failure> {
    sink(opening)?;
    let mut digest = Sha256::new();
    write(&mut |text| {
        digest.update(text.as_bytes());
        sink(text)
    })?;
    Ok(hex::encode(digest.finalize()))
}

/// Writes a section that is a list. `write_elements` receives the function that writes one element.
fn write_list(
    sink: &mut Sink,
    opening: &str,
    write_elements: impl FnOnce(PieceSink<'_>) -> Result<(), Failure>,
) -> Result<String, Failure> {
    write_section(sink, opening, |out| {
        let mut first = true;
        write_elements(&mut |json| {
            out(if first { "[\n" } else { ",\n" })?;
            first = false;
            out(json)
        })?;
        out(if first { "[]" } else { "\n]" })
    })
}
