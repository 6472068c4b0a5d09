//! A login: an anonymous session is given its owner, once and for all (DESIGN §7).

use filrouge_types::{
    Channel, ErrorCode, Failure, IdentityId, ItemBody, JsonText, RawJson, Role, SessionId,
};

use super::session::put_row;
use super::writing::{Context, Writing, check_tail, put_batch};
use crate::command::{Link, Outcome, Scope};
use crate::read::{Loaded, Sight, session_not_found};
use crate::record::{Batch, Entry};
use crate::rows::Change;
use crate::rows::{SessionRow, Tx};

pub(super) fn apply<T: Tx>(w: &mut Writing<'_, T>, link: &Link) -> Result<Outcome, Failure> {
    let id = &link.session_id;
    // Or else naming somebody would show what is theirs (P6).
    if let Some(viewer) = w.scope.viewer.identity()
        && *viewer != link.identity_id
    {
        let what = "a session is linked to another identity only by who acts for that one";
        return Err(Failure::new(ErrorCode::Forbidden, what)
            .with_hint("link it as the identity that logs in"));
    }
    let mut session = find(&w.sight(), w.scope, id)?;
    match &session.row.identity_id {
        Some(owner) if *owner == link.identity_id => {
            return Ok(Outcome::Session {
                session: Box::new(session.row.with_head(&session.head)),
                created: false,
                put: None,
            });
        }
        // That it has an owner is told, not whose it is: the one exception besides creating (DESIGN §7).
        Some(_) => {
            return Err(Failure::new(
                ErrorCode::SessionLinked,
                "the session is linked to another identity",
            )
            .with_hint("begin another session for this identity"));
        }
        None if !w.scope.sees(&session.row) => return Err(session_not_found(id)),
        None => {}
    }
    check_tail(w, &session, 1)?;
    let batch = link_item(w.ctx, &link.identity_id)?;
    let (first, _) = put_batch(w, &mut session, None, &batch)?;
    let row = SessionRow {
        identity_id: Some(link.identity_id.clone()),
        token: None,
        ..session.row.clone()
    };
    put_row(w, session, row, (first, 1), Change::Items)
}

/// The session, also another's; but of one that was erased only its owner is told.
fn find<T: Tx>(sight: &Sight<'_, T>, scope: &Scope, id: &SessionId) -> Result<Loaded, Failure> {
    if let Some(session) = sight.find(scope, id)? {
        return Ok(session);
    }
    match sight.find_any(scope, id) {
        Ok(Some(session)) => Ok(session),
        Err(failure) if failure.code != ErrorCode::SessionConflict => Err(failure),
        _ => Err(session_not_found(id)),
    }
}

fn link_item(ctx: &Context<'_>, identity: &IdentityId) -> Result<Batch, Failure> {
    let identity = JsonText::from_plain(identity.as_str());
    let parts = format!(
        r#"[{{"type":"session_link","identity_id":{}}}]"#,
        identity.as_token()
    );
    let parts = RawJson::from_checked(parts);
    let entry = Entry::from(ItemBody::new(Role::System, Channel::Link, parts));
    Batch::seal(vec![entry], ctx.entropy)
}
