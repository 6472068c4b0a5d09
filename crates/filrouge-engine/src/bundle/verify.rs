//! Verifies a bundle offline: its chain, turns, digests and signature, without a store or a secret.

use std::sync::Arc;

use filrouge_store::command::{Adopt, Outcome, Scope, Viewer, Write};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::rows::SessionRow;
use filrouge_store::verify::{Finding, Verdict};
use filrouge_store::{Keyring, Ledger, OsEntropy};
use filrouge_types::{ErrorCode, Failure, Session, SystemClock, Turn};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::export::SignedHead;
use super::item;
use super::read::{List, Sections, parse_sections};
use super::refusal::{Refusal, broken};
use super::sign::PublicKey;
use crate::shared::{command_as, to_json, unexpected_outcome};

/// The result of a bundle's verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BundleReport {
    /// Intact, broken, or neither: of another version, or no bundle.
    pub verdict: Verdict,
    /// The session, when it could be read.
    pub session_id: Option<String>,
    /// The number of turns.
    pub turns: u64,
    /// The number of items.
    pub items: u64,
    /// The signer, if the bundle is intact.
    pub signed_by: Option<SignedBy>,
    /// The first problem found; empty if the bundle is intact.
    pub findings: Vec<Finding>,
}

/// A bundle's signer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SignedBy {
    /// The key's number in the installation that signed the bundle.
    pub key_id: u32,
    /// The key.
    pub public_key: String,
    /// Whether the caller named this key. If the caller named none, the signature shows only that nothing was changed
    /// since the holder of this key signed.
    pub trusted: bool,
}

/// A parsed bundle whose chain, turns, digests and signature are valid.
pub(super) struct CheckedBundle {
    pub(super) adopt: Adopt,
    pub(super) turns: u64,
    pub(super) signed_by: SignedBy,
}

/// Verifies a bundle; with `key`, also that it was signed by that key.
///
/// # Errors
/// `internal` when verification itself fails; problems of the bundle are in the report.
pub async fn verify(bundle: &[u8], key: Option<PublicKey>) -> Result<BundleReport, Failure> {
    let mut report = BundleReport {
        verdict: Verdict::Intact,
        session_id: None,
        turns: 0,
        items: 0,
        signed_by: None,
        findings: Vec::new(),
    };
    match check_bundle(bundle, key).await {
        Ok(checked) => {
            report.session_id = Some(checked.adopt.session.session_id.to_string());
            report.turns = checked.turns;
            report.items = checked.adopt.items.len() as u64;
            report.signed_by = Some(checked.signed_by);
        }
        Err(Refusal::VerificationFailed(failure)) => return Err(failure),
        Err(Refusal::Broken(finding)) => {
            report.verdict = Verdict::Broken;
            report.session_id.clone_from(&finding.session_id);
            report.findings.push(*finding);
        }
        Err(refusal @ (Refusal::NotABundle | Refusal::OtherVersion(_))) => {
            report.verdict = Verdict::CannotTell;
            report.findings.push(Failure::from(refusal).into());
        }
    }
    Ok(report)
}

/// Parses and checks an entire bundle.
pub(super) async fn check_bundle(
    bundle: &[u8],
    key: Option<PublicKey>,
) -> Result<CheckedBundle, Refusal> {
    let sections = parse_sections(bundle)?;
    // A changed session id makes every link wrong, because the id is part of each. Checking the signed digest of the
    // section first makes the report name the session and not its links.
    let head = signed_head(&sections);
    if head
        .as_ref()
        .is_ok_and(|(h, _)| h.session != digest(sections.session))
    {
        return Err(broken(None, None, CHANGED_SECTION.replace("{}", "session")));
    }
    let adopt = parse_adopt(&sections)?;
    let id = adopt.session.session_id.to_string();
    let broken_session = |detail: &str| broken(Some(&id), None, detail);
    let to_refusal = |failure: Failure| match failure.code {
        ErrorCode::Internal => Refusal::VerificationFailed(failure),
        _ => Refusal::Broken(Box::new(Finding::from(failure))),
    };
    let (derived_session, turns) = derive_session(&adopt).await.map_err(to_refusal)?;
    compare_turns(&id, &sections.turns, &turns)?;
    if to_json(&derived_session).map_err(to_refusal)? != sections.session {
        return Err(broken_session("session: it does not match its items"));
    }
    if sections.checkpoints != "[]" {
        let detail = "checkpoints: this version supports only an empty list";
        return Err(broken_session(detail));
    }
    let head = head.map_err(|detail| broken_session(&detail))?;
    let signed_by = check_head(&id, &sections, &adopt, head, key)?;
    Ok(CheckedBundle {
        adopt,
        turns: turns.len() as u64,
        signed_by,
    })
}

fn parse_adopt(sections: &Sections<'_>) -> Result<Adopt, Refusal> {
    let parsed: Session = serde_json::from_str(sections.session)
        .map_err(|e| broken(None, None, format!("session: {e}")))?;
    let id = parsed.session_id.to_string();
    let mut items = Vec::with_capacity(sections.items.elements.len());
    for (json, seq) in sections.items.elements.iter().zip(1_u64..) {
        let chained = item::read(json).map_err(|detail| broken(Some(&id), Some(seq), detail))?;
        if chained.item.seq != seq {
            let detail = format!("item {} is at the position of item {seq}", chained.item.seq);
            return Err(broken(Some(&id), Some(seq), detail));
        }
        if item::write(&chained).ok().as_deref() != Some(*json) {
            let detail = "the item does not have the canonical encoding";
            return Err(broken(Some(&id), Some(seq), detail));
        }
        items.push(chained);
    }
    if !parsed.metadata.is_object() {
        let detail = "session: metadata must be an object";
        return Err(broken(Some(&id), None, detail));
    }
    let session = SessionRow {
        tenant_id: parsed.tenant_id,
        session_id: parsed.session_id,
        identity_id: parsed.identity_id,
        parent_session_id: parsed.parent_session_id,
        project_id: parsed.project_id,
        team_id: parsed.team_id,
        title: parsed.title,
        status: parsed.status,
        state: parsed.state,
        metadata: parsed.metadata,
        created_at: parsed.created_at,
        token: None,
        erased: None,
    };
    Ok(Adopt {
        session,
        updated_at: parsed.updated_at,
        items,
        side_rows: Default::default(),
    })
}

/// Derives the session and its turns from the items: a temporary ledger adopts the items and returns both.
pub(super) async fn derive_session(adopt: &Adopt) -> Result<(Session, Vec<Turn>), Failure> {
    // The key of the temporary ledger is a placeholder, because adopting items checks their links and not MACs.
    let keyring = Arc::new(Keyring::single([0; 32]));
    let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), Arc::new(SystemClock));
    let ledger: &dyn Ledger = &ledger;
    let scope = Scope::new(adopt.session.tenant_id.clone(), Viewer::Operator);
    let command = command_as(&scope, Write::Adopt(Arc::new(adopt.clone())));
    let Outcome::Session { session, .. } = ledger.write(command).await?.outcome else {
        return Err(unexpected_outcome());
    };
    let id = adopt.session.session_id.clone();
    let turns = ledger
        .query(move |snapshot| {
            let mut turns = Vec::new();
            snapshot.for_each_turn(&snapshot.get(&scope, &id)?, |turn| {
                turns.push(turn);
                Ok(())
            })?;
            Ok(turns)
        })
        .await?;
    Ok((*session, turns))
}

fn compare_turns(id: &str, listed: &List<'_>, turns: &[Turn]) -> Result<(), Refusal> {
    for (index, turn) in turns.iter().enumerate() {
        let expected = to_json(turn).map_err(Refusal::VerificationFailed)?;
        if listed.elements.get(index).copied() != Some(expected.as_str()) {
            let detail = format!(
                "turns[{index}]: turn {} does not match its items",
                turn.turn_id
            );
            return Err(broken(Some(id), Some(turn.first_seq), detail));
        }
    }
    if listed.elements.len() != turns.len() {
        let detail = format!("turns[{}]: it has no items", turns.len());
        return Err(broken(Some(id), None, detail));
    }
    Ok(())
}

pub(super) fn digest(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}

const CHANGED_SECTION: &str = "{}: the bytes are not those that were signed";

/// The parsed head and the key that signed it; the error says why the head or its signature is not valid.
fn signed_head(sections: &Sections<'_>) -> Result<(SignedHead, PublicKey), String> {
    let head: SignedHead = serde_json::from_str(sections.head).map_err(|e| format!("head: {e}"))?;
    if to_json(&head).ok().as_deref() != Some(sections.head) {
        return Err("head: it does not have the canonical encoding".into());
    }
    let key: PublicKey = head
        .public_key
        .parse()
        .map_err(|_| "head: public_key is not a public key")?;
    let signature = sections.signature;
    let digits = signature
        .strip_prefix('"')
        .and_then(|s| s.strip_suffix('"'));
    if digits.is_some_and(|s| key.has_signed(sections.head, s)) {
        Ok((head, key))
    } else {
        Err("signature: it does not match the head".into())
    }
}

/// Checks that a signed head matches the session and its sections; returns the signer.
fn check_head(
    id: &str,
    sections: &Sections<'_>,
    adopt: &Adopt,
    (head, public_key): (SignedHead, PublicKey),
    key: Option<PublicKey>,
) -> Result<SignedBy, Refusal> {
    let broken_session = |detail: String| broken(Some(id), None, detail);
    let digests = [
        ("session", sections.session, &head.session),
        ("turns", sections.turns.raw, &head.turns),
        ("items", sections.items.raw, &head.items),
        ("checkpoints", sections.checkpoints, &head.checkpoints),
    ];
    for (name, bytes, signed) in digests {
        if digest(bytes) != *signed {
            return Err(broken_session(CHANGED_SECTION.replace("{}", name)));
        }
    }
    let link = adopt.items.last().map_or([0; 32], |i| i.link);
    let session = &adopt.session;
    if head.tenant_id != session.tenant_id.as_str()
        || head.session_id != session.session_id.as_str()
        || (head.last_seq, &head.link) != (adopt.items.len() as u64, &hex::encode(link))
    {
        let detail = "head: it is not the head of this session";
        return Err(broken_session(detail.into()));
    }
    if key.is_some_and(|key| key != public_key) {
        let detail = format!("head: signed by {public_key}, which is not the expected key");
        return Err(broken_session(detail));
    }
    Ok(SignedBy {
        key_id: head.key_id,
        public_key: head.public_key,
        trusted: key.is_some(),
    })
}
