//! Links an anonymous session to the identity that logs in. The identity becomes the session's owner permanently
//! (DESIGN §7).

use filrouge_types::{
    Channel, ErrorCode, Failure, IdentityId, ItemBody, JsonText, RawJson, Role, SessionId,
};

use super::session::put_row;
use super::writing::{ActiveWrite, RuleContext, append_batch, check_tail};
use crate::command::{Link, Outcome, Scope};
use crate::read::{VerifiedSession, VerifiedSnapshot, session_not_found};
use crate::record::{Batch, Entry};
use crate::rows::{Change, SessionRow, Tx};

pub(super) fn apply<T: Tx>(w: &mut ActiveWrite<'_, T>, link: &Link) -> Result<Outcome, Failure> {
    let id = &link.session_id;
    // Without this check, a caller could name another identity to find out which sessions belong to that identity (P6).
    if let Some(viewer) = w.scope.viewer.identity()
        && *viewer != link.identity_id
    {
        let detail = "only a caller that acts for an identity may link a session to it";
        return Err(Failure::new(ErrorCode::Forbidden, detail)
            .with_hint("link it as the identity that logs in"));
    }
    let mut session = find(&w.snapshot(), w.scope, id)?;
    match &session.row.identity_id {
        Some(owner) if *owner == link.identity_id => {
            return Ok(Outcome::Session {
                session: Box::new(session.row.with_head(&session.head)),
                created: false,
                written: None,
            });
        }
        // The refusal reveals that the session has an owner, but not which one. The only other request that reveals
        // this is the creation of a session (DESIGN §7).
        Some(_) => {
            return Err(ErrorCode::SessionLinked
                .failure("the session is linked to another identity")
                .with_hint("begin another session for this identity"));
        }
        None if !w.scope.can_see(&session.row) => return Err(session_not_found(id)),
        None => {}
    }
    check_tail(w, &session, 1)?;
    let batch = link_item(w.ctx, &link.identity_id)?;
    let (first, _) = append_batch(w, &mut session, None, &batch)?;
    let row = SessionRow {
        identity_id: Some(link.identity_id.clone()),
        token: None,
        ..session.row.clone()
    };
    let owner = w.ctx.keyring.owner(Some(&link.identity_id), None);
    put_row(w, session, row, (first, 1), Change::Linked(owner))
}

/// Finds the session, even if the viewer may not see it. The failure for an erased session reveals the erasure only to
/// the session's owner.
fn find<T: Tx>(
    snapshot: &VerifiedSnapshot<'_, T>,
    scope: &Scope,
    id: &SessionId,
) -> Result<VerifiedSession, Failure> {
    if let Some(session) = snapshot.find(scope, id)? {
        return Ok(session);
    }
    match snapshot.find_any(scope, id) {
        Ok(Some(session)) => Ok(session),
        Err(failure) if failure.code != ErrorCode::SessionConflict => Err(failure),
        _ => Err(session_not_found(id)),
    }
}

/// The item that records the new owner.
fn link_item(ctx: &RuleContext<'_>, identity: &IdentityId) -> Result<Batch, Failure> {
    let identity = JsonText::from_plain(identity.as_str());
    let parts = format!(
        r#"[{{"type":"session_link","identity_id":{}}}]"#,
        identity.as_token()
    );
    let parts = RawJson::from_checked(parts);
    let entry = Entry::from(ItemBody::new(Role::System, Channel::Link, parts));
    Batch::pack(vec![entry], ctx.entropy)
}
