//! Verifying a bundle offline: its chain, its turns, its digests, its signature; no store and no secret needed.

use std::sync::Arc;

use filrouge_store::command::{Adopt, Command, Outcome, Scope, Viewer, Write};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::rows::SessionRow;
use filrouge_store::verify::{Finding, Verdict};
use filrouge_store::{Keyring, Ledger, OsEntropy};
use filrouge_types::{ErrorCode, Failure, Session, SystemClock, Turn};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::export::Head;
use super::item;
use super::read::{List, Sections, sections};
use super::refused::{Refused, broken};
use super::sign::PublicKey;
use crate::core::{json, unexpected};

/// What a bundle's verification has looked at and found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BundleReport {
    /// Intact, broken, or written by another version.
    pub verdict: Verdict,
    /// The session, when it could be read.
    pub session_id: Option<String>,
    /// Turns in it.
    pub turns: u64,
    /// Items in it.
    pub items: u64,
    /// Who signed it, when it is intact.
    pub signed_by: Option<SignedBy>,
    /// The first thing that is wrong.
    pub findings: Vec<Finding>,
}

/// A bundle's signer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SignedBy {
    /// The key's number in the installation that signed.
    pub key_id: u32,
    /// The key.
    pub public_key: String,
    /// Whether it is the key that was asked for. Without one asked for, the signature says only that nothing was
    /// changed since whoever holds this key signed it.
    pub trusted: bool,
}

/// A bundle that was read and whose chain, turns and digests hold.
pub(super) struct Checked {
    pub(super) adopt: Adopt,
    pub(super) turns: u64,
    pub(super) signed_by: SignedBy,
}

/// Verifies a bundle; with `key`, also that it was signed by that key.
///
/// # Errors
/// `internal` when verification itself fails; what is wrong with the bundle is in the report.
pub async fn verify(bundle: &[u8], key: Option<PublicKey>) -> Result<BundleReport, Failure> {
    let mut report = BundleReport {
        verdict: Verdict::Intact,
        session_id: None,
        turns: 0,
        items: 0,
        signed_by: None,
        findings: Vec::new(),
    };
    match check(bundle, key).await {
        Ok(checked) => {
            report.session_id = Some(checked.adopt.session.session_id.to_string());
            report.turns = checked.turns;
            report.items = checked.adopt.items.len() as u64;
            report.signed_by = Some(checked.signed_by);
        }
        Err(Refused::Failed(failure)) => return Err(failure),
        Err(Refused::Broken(finding)) => {
            report.verdict = Verdict::Broken;
            report.session_id.clone_from(&finding.session_id);
            report.findings.push(*finding);
        }
        Err(Refused::Version(version)) => {
            report.verdict = Verdict::CannotTell;
            report.findings.push(Finding {
                session_id: None,
                seq: None,
                code: ErrorCode::Invalid.as_str(),
                what: format!("the bundle has format {version}, this program reads format 1"),
            });
        }
    }
    Ok(report)
}

/// Reads and checks a bundle whole.
pub(super) async fn check(bundle: &[u8], key: Option<PublicKey>) -> Result<Checked, Refused> {
    let sections = sections(bundle)?;
    // The links are made of the session's name as well: what was signed tells which of them was changed.
    let head = signed_head(&sections);
    if head
        .as_ref()
        .is_ok_and(|(h, _)| h.session != digest(sections.session))
    {
        return Err(broken(None, None, CHANGED.replace("{}", "session")));
    }
    let adopt = read(&sections)?;
    let id = adopt.session.session_id.to_string();
    let failed = |failure: Failure| match failure.code {
        ErrorCode::Internal => Refused::Failed(failure),
        _ => Refused::Broken(Box::new(Finding::from(failure))),
    };
    let (rebuilt, turns) = rebuild(&adopt).await.map_err(failed)?;
    compare_turns(&id, &sections.turns, &turns)?;
    if json(&rebuilt).map_err(failed)? != sections.session {
        return Err(broken(
            Some(&id),
            None,
            "session: it is not what its items say",
        ));
    }
    if sections.checkpoints != "[]" {
        return Err(broken(
            Some(&id),
            None,
            "checkpoints: this version knows none",
        ));
    }
    let head = head.map_err(|what| broken(Some(&id), None, what))?;
    let signed_by = check_head(&id, &sections, &adopt, head, key)?;
    Ok(Checked {
        adopt,
        turns: turns.len() as u64,
        signed_by,
    })
}

fn read(sections: &Sections<'_>) -> Result<Adopt, Refused> {
    let read: Session = serde_json::from_str(sections.session)
        .map_err(|e| broken(None, None, format!("session: {e}")))?;
    let id = read.session_id.to_string();
    let mut items = Vec::with_capacity(sections.items.elements.len());
    for (json, seq) in sections.items.elements.iter().zip(1_u64..) {
        let one = item::read(json).map_err(|what| broken(Some(&id), Some(seq), what))?;
        if one.item.seq != seq {
            let what = format!("item {} stands where item {seq} belongs", one.item.seq);
            return Err(broken(Some(&id), Some(seq), what));
        }
        if item::write(&one).ok().as_deref() != Some(*json) {
            let what = "the item is not written as filrouge writes it";
            return Err(broken(Some(&id), Some(seq), what));
        }
        items.push(one);
    }
    if !read.metadata.is_object() {
        return Err(broken(Some(&id), None, "session: metadata is an object"));
    }
    let session = SessionRow {
        tenant_id: read.tenant_id,
        session_id: read.session_id,
        identity_id: read.identity_id,
        parent_session_id: read.parent_session_id,
        project_id: read.project_id,
        team_id: read.team_id,
        title: read.title,
        status: read.status,
        state: read.state,
        metadata: read.metadata,
        created_at: read.created_at,
        token: None,
        erased: None,
    };
    Ok(Adopt {
        session,
        updated_at: read.updated_at,
        items,
        beside: Default::default(),
    })
}

/// The session and its turns as the items make them, in a ledger made for it.
pub(super) async fn rebuild(adopt: &Adopt) -> Result<(Session, Vec<Turn>), Failure> {
    // The keys of this ledger vouch for nothing; the links are checked as it takes the items in.
    let keyring = Arc::new(Keyring::single([0; 32]));
    let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), Arc::new(SystemClock));
    let ledger: &dyn Ledger = &ledger;
    let scope = Scope::new(adopt.session.tenant_id.clone(), Viewer::Operator);
    let command = Command {
        scope: scope.clone(),
        write: Write::Adopt(Arc::new(adopt.clone())),
    };
    let Outcome::Session { session, .. } = ledger.write(command).await?.outcome else {
        return Err(unexpected());
    };
    let id = adopt.session.session_id.clone();
    let turns = ledger
        .ask(move |sight| {
            let mut all = Vec::new();
            sight.each_turn(&sight.get(&scope, &id)?, |turn| {
                all.push(turn);
                Ok(())
            })?;
            Ok(all)
        })
        .await?;
    Ok((*session, turns))
}

fn compare_turns(id: &str, said: &List<'_>, turns: &[Turn]) -> Result<(), Refused> {
    for (index, turn) in turns.iter().enumerate() {
        let made = json(turn).map_err(Refused::Failed)?;
        if said.elements.get(index).copied() != Some(made.as_str()) {
            let what = format!(
                "turns[{index}]: turn {} is not what its items say",
                turn.turn_id
            );
            return Err(broken(Some(id), Some(turn.first_seq), what));
        }
    }
    if said.elements.len() != turns.len() {
        let what = format!("turns[{}]: there are no items of it", turns.len());
        return Err(broken(Some(id), None, what));
    }
    Ok(())
}

pub(super) fn digest(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}

const CHANGED: &str = "{}: the bytes are not those that were signed";

/// The head with the key that signed it.
fn signed_head(sections: &Sections<'_>) -> Result<(Head, PublicKey), String> {
    let head: Head = serde_json::from_str(sections.head).map_err(|e| format!("head: {e}"))?;
    if json(&head).ok().as_deref() != Some(sections.head) {
        return Err("head: it is not written as filrouge writes it".into());
    }
    let key: PublicKey = head
        .public_key
        .parse()
        .map_err(|_| "head: its public key is none")?;
    let signature = sections.signature;
    let digits = signature
        .strip_prefix('"')
        .and_then(|s| s.strip_suffix('"'));
    if digits.is_some_and(|s| key.signed(sections.head, s)) {
        Ok((head, key))
    } else {
        Err("signature: it is not that of the head".into())
    }
}

/// What a signed head says of the session and its sections, and who signed it.
fn check_head(
    id: &str,
    sections: &Sections<'_>,
    adopt: &Adopt,
    (head, public_key): (Head, PublicKey),
    key: Option<PublicKey>,
) -> Result<SignedBy, Refused> {
    let wrong = |what: String| broken(Some(id), None, what);
    let digests = [
        ("session", sections.session, &head.session),
        ("turns", sections.turns.whole, &head.turns),
        ("items", sections.items.whole, &head.items),
        ("checkpoints", sections.checkpoints, &head.checkpoints),
    ];
    for (name, bytes, said) in digests {
        if digest(bytes) != *said {
            return Err(wrong(CHANGED.replace("{}", name)));
        }
    }
    let link = adopt.items.last().map_or([0; 32], |i| i.link);
    let session = &adopt.session;
    if head.tenant_id != session.tenant_id.as_str()
        || head.session_id != session.session_id.as_str()
        || (head.last_seq, &head.link) != (adopt.items.len() as u64, &hex::encode(link))
    {
        let what = "head: it is not the head of this session";
        return Err(wrong(what.into()));
    }
    if key.is_some_and(|key| key != public_key) {
        let what = format!("head: signed by {public_key}, which is not the key asked for");
        return Err(wrong(what));
    }
    Ok(SignedBy {
        key_id: head.key_id,
        public_key: head.public_key,
        trusted: key.is_some(),
    })
}
