//! Creates, changes and ends sessions.

use filrouge_types::{
    Channel, ErrorCode, Failure, ItemBody, JsonText, RawJson, Result, Role, SessionStatus,
    merge_patch,
};

use super::lease;
use super::writing::{
    ActiveWrite, RuleContext, append_batch, check_tail, insert_session, put_changed_head, put_head,
};
use crate::command::{CloseSession, NewSession, Outcome, Patch, WrittenRange};
use crate::read::{VerifiedSession, session_conflict};
use crate::record::{Batch, Entry};
use crate::rows::{Change, SessionRow, Tx};

/// Creates a session. If the caller may see a session with this id, returns it unchanged, or with the later time of the
/// last change that [`NewSession::times`] gives; another owner's id is refused with `session_conflict`.
pub(super) fn create<T: Tx>(w: &mut ActiveWrite<'_, T>, new: &NewSession) -> Result<Outcome> {
    if let Some(mut existing) = w.snapshot().find_any(w.scope, &new.session_id)? {
        return if w.scope.can_see(&existing.row) {
            let updated = new.times.map(|[_, updated]| updated.min(w.ctx.now));
            if let Some(updated) = updated.filter(|at| *at > existing.head.updated_at) {
                existing.head.updated_at = updated;
                existing = put_changed_head(w, existing, (0, 0), Change::Patched)?;
            }
            let session = Box::new(existing.row.with_head(&existing.head));
            Ok(Outcome::Session {
                session,
                created: false,
                written: None,
            })
        } else {
            Err(session_conflict())
        };
    }
    let session = insert_session(w, new)?;
    let session = put_head(w, session, (0, 0), true)?;
    Ok(Outcome::Session {
        session: Box::new(session.row.with_head(&session.head)),
        created: true,
        written: None,
    })
}

/// Changes the fields that the patch contains. If the session already has these values, succeeds without a write.
pub(super) fn patch<T: Tx>(w: &mut ActiveWrite<'_, T>, patch: &Patch) -> Result<Outcome> {
    let mut session = w.snapshot().get(w.scope, &patch.session_id)?;
    let row = apply_patch(&session.row, patch)?;
    // A patch that changes nothing succeeds, whatever its If-Match condition: it may be the retry of a patch that has
    // changed the session, and with it the version.
    if row == session.row {
        let session = lease::release_if_requested(w, session)?;
        return Ok(unchanged_outcome(session));
    }
    // While a session has a holder, only the holder may change its state or status. The other fields, such as the
    // title, need no lease.
    if row.state != session.row.state || row.status != session.row.status {
        lease::check_and_release(w, &mut session)?;
    } else {
        lease::check_and_release_if_fenced(w, &mut session)?;
    }
    let version = session.row.clone().with_head(&session.head).version;
    if patch
        .versions
        .as_ref()
        .is_some_and(|v| !v.contains(&version))
    {
        return Err(ErrorCode::PreconditionFailed
            .failure("the session no longer has the version that If-Match names")
            .with_hint("get it again, look at what has changed, and send its new ETag"));
    }
    put_row(w, session, row, (0, 0), Change::Patched)
}

/// Applies the patch to the row. Refuses metadata that the patch makes too large.
fn apply_patch(row: &SessionRow, patch: &Patch) -> Result<SessionRow> {
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
        // Merging drops white space; a difference only in white space is no change.
        if !is_same_json(&merged, &row.metadata) {
            row.metadata = merged;
        }
        let (bytes, limit) = (row.metadata.as_str().len(), patch.metadata_max);
        if bytes > limit {
            let detail = format!("metadata would have {bytes} bytes, at most {limit} are allowed");
            return Err(Failure::new(ErrorCode::LimitExceeded, detail)
                .with_hint("remove members by setting them to null"));
        }
    }
    Ok(row)
}

/// Whether two documents are equal apart from white space between tokens.
pub(super) fn is_same_json(a: &RawJson, b: &RawJson) -> bool {
    let without_white_space = |json: &RawJson| {
        let (mut in_string, mut is_escaped) = (false, false);
        let mut kept = Vec::with_capacity(json.as_str().len());
        for byte in json.as_str().bytes() {
            if in_string || !byte.is_ascii_whitespace() {
                kept.push(byte);
            }
            in_string ^= byte == b'"' && !is_escaped;
            is_escaped = in_string && byte == b'\\' && !is_escaped;
        }
        kept
    };
    without_white_space(a) == without_white_space(b)
}

/// Closes a session; an item records the reason. A closed session stays unchanged.
pub(super) fn close<T: Tx>(w: &mut ActiveWrite<'_, T>, close: &CloseSession) -> Result<Outcome> {
    let mut session = w.snapshot().get(w.scope, &close.session_id)?;
    if session.row.status == SessionStatus::Closed {
        let session = lease::release_if_requested(w, session)?;
        return Ok(unchanged_outcome(session));
    }
    lease::check_and_release(w, &mut session)?;
    check_tail(w, &session, 1)?;
    let batch = closing_item(w.ctx, close.reason.as_deref())?;
    let (first, _) = append_batch(w, &mut session, None, &batch)?;
    let row = SessionRow {
        status: SessionStatus::Closed,
        ..session.row.clone()
    };
    put_row(w, session, row, (first, 1), Change::Items)
}

/// The item that records that the session was closed, and why.
fn closing_item(ctx: &RuleContext<'_>, reason: Option<&str>) -> Result<Batch> {
    let reason = reason.map_or("null".to_owned(), |r| {
        JsonText::from_plain(r).as_token().to_owned()
    });
    let parts = format!(r#"[{{"type":"session_closed","reason":{reason}}}]"#);
    let parts = RawJson::from_checked(parts);
    let entry = Entry::from(ItemBody::new(Role::System, Channel::SystemNote, parts));
    Batch::pack(vec![entry], ctx.entropy)
}

/// The outcome of a request that changes nothing.
fn unchanged_outcome(session: VerifiedSession) -> Outcome {
    Outcome::Session {
        session: Box::new(session.row.with_head(&session.head)),
        created: false,
        written: None,
    }
}

/// Changes a session's title; the caller writes its head.
pub(super) fn set_title<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    session: &mut VerifiedSession,
    title: Option<Box<str>>,
) -> Result<()> {
    session.row.title = title;
    session.head.session = session.row.fingerprint();
    w.tx.update_session(session.pk, &session.row)
}

/// Writes a session's changed row, and its head, which contains the row's fingerprint. `seqs` is the first seq and the
/// number of the items that the write added; (0, 0) for none.
pub(super) fn put_row<T: Tx>(
    w: &mut ActiveWrite<'_, T>,
    mut session: VerifiedSession,
    row: SessionRow,
    seqs: (u64, u64),
    change: Change,
) -> Result<Outcome> {
    w.tx.update_session(session.pk, &row)?;
    session.head.session = row.fingerprint();
    session.head.updated_at = w.ctx.now;
    session.row = row;
    let session = put_changed_head(w, session, seqs, change)?;
    let written = WrittenRange::new(&session, seqs.0, seqs.1, []);
    Ok(Outcome::Session {
        session: Box::new(session.row.with_head(&session.head)),
        created: false,
        written,
    })
}
