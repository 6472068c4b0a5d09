//! Sessions as a whole: made, changed, ended.

use filrouge_types::{
    Channel, ErrorCode, Failure, ItemBody, JsonText, RawJson, Role, SessionStatus, merge_patch,
};

use super::lease;
use super::writing::{
    Context, Writing, check_tail, insert_session, put_batch, put_changed, put_head,
};
use crate::command::{CloseSession, NewSession, Outcome, Patch, Put};
use crate::read::Loaded;
use crate::read::session_conflict;
use crate::record::{Batch, Entry};
use crate::rows::Change;
use crate::rows::{SessionRow, Tx};

pub(super) fn create<T: Tx>(w: &mut Writing<'_, T>, new: &NewSession) -> Result<Outcome, Failure> {
    if let Some(found) = w.sight().find_any(w.scope, &new.session_id)? {
        return if w.scope.sees(&found.row) {
            let session = Box::new(found.row.with_head(&found.head));
            Ok(Outcome::Session {
                session,
                created: false,
                put: None,
            })
        } else {
            Err(session_conflict())
        };
    }
    let made = insert_session(w, new)?;
    let made = put_head(w, made, (0, 0), true)?;
    Ok(Outcome::Session {
        session: Box::new(made.row.with_head(&made.head)),
        created: true,
        put: None,
    })
}

/// Changes what is listed; a patch that changes nothing writes nothing.
pub(super) fn patch<T: Tx>(w: &mut Writing<'_, T>, patch: &Patch) -> Result<Outcome, Failure> {
    let mut session = w.sight().get(w.scope, &patch.session_id)?;
    let row = patched(&session.row, patch)?;
    // What is so already is answered whatever the condition: a retry finds its own doing.
    if row == session.row {
        let session = lease::release_again(w, session)?;
        return Ok(unchanged(session));
    }
    // Titles and the like are for anybody to change; how the session goes on is not.
    if row.state != session.row.state || row.status != session.row.status {
        lease::check(w, &mut session)?;
    } else {
        lease::check_named(w, &mut session)?;
    }
    let version = session.row.clone().with_head(&session.head).version;
    if patch
        .versions
        .as_ref()
        .is_some_and(|v| !v.contains(&version))
    {
        return Err(Failure::new(
            ErrorCode::PreconditionFailed,
            "the session is not as If-Match says any more",
        )
        .with_hint("get it again, look at what has changed, and send its new ETag"));
    }
    put_row(w, session, row, (0, 0), Change::Patched)
}

fn patched(row: &SessionRow, patch: &Patch) -> Result<SessionRow, Failure> {
    let (mut row, change) = (row.clone(), &patch.patch);
    if let Some(title) = &change.title {
        row.title = title.clone();
    }
    if let Some(status) = change.status {
        row.status = status;
    }
    if let Some(state) = &change.state {
        row.state = state.clone();
    }
    if let Some(project_id) = &change.project_id {
        row.project_id = project_id.clone();
    }
    if let Some(metadata) = &change.metadata {
        let merged = match metadata {
            Some(metadata) => merge_patch(&row.metadata, metadata),
            None => RawJson::from_checked("{}"),
        };
        // Merging writes without white space; that alone is no change.
        if !same_json(&merged, &row.metadata) {
            row.metadata = merged;
        }
        let (bytes, most) = (row.metadata.as_str().len(), patch.metadata_max);
        if bytes > most {
            let what = format!("metadata would have {bytes} bytes, at most {most} are allowed");
            return Err(Failure::new(ErrorCode::LimitExceeded, what)
                .with_hint("take members away by setting them to null"));
        }
    }
    Ok(row)
}

/// Whether two documents are spelled alike but for white space between their tokens.
pub(super) fn same_json(a: &RawJson, b: &RawJson) -> bool {
    let significant = |json: &RawJson| {
        let (mut inside, mut escaped) = (false, false);
        let mut kept = Vec::with_capacity(json.as_str().len());
        for byte in json.as_str().bytes() {
            if inside || !byte.is_ascii_whitespace() {
                kept.push(byte);
            }
            inside ^= byte == b'"' && !escaped;
            escaped = inside && byte == b'\\' && !escaped;
        }
        kept
    };
    significant(a) == significant(b)
}

/// Ends a session; one that has ended stays as it is.
pub(super) fn close<T: Tx>(
    w: &mut Writing<'_, T>,
    close: &CloseSession,
) -> Result<Outcome, Failure> {
    let mut session = w.sight().get(w.scope, &close.session_id)?;
    if session.row.status == SessionStatus::Closed {
        let session = lease::release_again(w, session)?;
        return Ok(unchanged(session));
    }
    lease::check(w, &mut session)?;
    check_tail(w, &session, 1)?;
    let batch = note_item(w.ctx, close.reason.as_deref())?;
    let (first, _) = put_batch(w, &mut session, None, &batch)?;
    let row = SessionRow {
        status: SessionStatus::Closed,
        ..session.row.clone()
    };
    put_row(w, session, row, (first, 1), Change::Items)
}

/// Tells in the journal that the session was closed, and why.
fn note_item(ctx: &Context<'_>, reason: Option<&str>) -> Result<Batch, Failure> {
    let reason = reason.map_or("null".to_owned(), |r| {
        JsonText::from_plain(r).as_token().to_owned()
    });
    let parts = format!(r#"[{{"type":"session_closed","reason":{reason}}}]"#);
    let parts = RawJson::from_checked(parts);
    let entry = Entry::from(ItemBody::new(Role::System, Channel::SystemNote, parts));
    Batch::seal(vec![entry], ctx.entropy)
}

fn unchanged(session: Loaded) -> Outcome {
    Outcome::Session {
        session: Box::new(session.row.with_head(&session.head)),
        created: false,
        put: None,
    }
}

/// Writes a session's changed row, and the head that vouches for it.
pub(super) fn put_row<T: Tx>(
    w: &mut Writing<'_, T>,
    mut session: Loaded,
    row: SessionRow,
    seqs: (u64, u64),
    change: Change,
) -> Result<Outcome, Failure> {
    w.tx.update_session(session.pk, &row)?;
    session.head.session = row.fingerprint();
    session.head.updated_at = w.ctx.now;
    session.row = row;
    let session = put_changed(w, session, seqs, change)?;
    let put = Put::new(&session, seqs.0, seqs.1, []);
    Ok(Outcome::Session {
        session: Box::new(session.row.with_head(&session.head)),
        created: false,
        put,
    })
}
