//! Writes as small numbers, so that they often affect each other.

use std::time::Duration;

use filrouge_types::{SessionStatus, TurnId};

use crate::command::{NewSession, SessionPatch, Write};
use crate::contract::fixture::sid;
use crate::contract::session_writes::{
    close_session, erase, link, metadata, patch, patch_if, title,
};
use crate::contract::{drafts, live_writes};

/// A write of a recording of the turn.
pub(super) fn draft_write(s: &str, id: TurnId, kind: u8, request: u8, more: u8) -> Write {
    let (stream, number) = (drafts::stream(request / 2), u64::from(more));
    // A piece's first delta precedes its continuation, as in a real recording.
    let rest = || {
        let begun = drafts::delta(number, true, "more");
        let continuation = (more == 1).then(|| drafts::delta(number, false, " of it"));
        [begun].into_iter().chain(continuation).collect()
    };
    match kind {
        0 => drafts::put(s, id, stream, 0, Vec::new()),
        1 => drafts::put(s, id, stream, number, rest()),
        2 if more == 3 => drafts::recorded(s, id, stream, "answer"),
        2 => drafts::advance(s, id, stream, number + 5, (more > 0).then(rest)),
        _ => drafts::abandon(s, id, stream, i64::from(more / 2) * i64::MAX),
    }
}

/// A lease or a checkpoint of the session. The clock advances slowly, so that some leases expire in between.
pub(super) fn lease_or_checkpoint_write(s: &str, kind: u8, request: u8, more: u8) -> Write {
    let holder = ["a", "b"][usize::from(request % 2)];
    match kind {
        0 | 1 => live_writes::acquire_with(s, holder, |acquire| {
            acquire.ttl = Duration::from_micros(10_u64.pow(u32::from(more % 3) + 1));
            acquire.resumes = (more > 0).then(|| (request == 2).then_some(u64::from(more)));
            acquire.create = (more == 3).then(|| NewSession::with_id(sid(s)));
            acquire.terminal = vec!["L3".into()];
        }),
        2 => live_writes::renew(s, holder, u64::from(more), 1),
        3 => live_writes::release(s, holder, u64::from(more)),
        _ => {
            let seq = (more != 3).then_some(u64::from(request) * 3);
            let label = (more > 0).then(|| format!("L{request}"));
            let state = format!(r#"{{"n":{}}}"#, more / 2);
            live_writes::keeping(1 + u64::from(more), s, seq, label.as_deref(), &state)
        }
    }
}

/// A write that concerns session `s` as a unit.
pub(super) fn session_write(s: &str, kind: u8, request: u8, more: u8) -> Write {
    match (kind, more) {
        (0, 0) => patch(s, title(&format!("title {request}"))),
        (0, 1) => patch(s, metadata(&format!(r#"{{"m{request}":{request}}}"#))),
        (0, 2) => patch_if(s, title("never"), Some(vec![[request; 16]])),
        (0, _) => patch(s, metadata(&format!(r#"{{"m{request}":null}}"#))),
        (1, 0) => close_session(s, Some("enough")),
        (1, 1) => patch(s, active()),
        (2, 0..2) => link(s, if request == 0 { "bob" } else { "ann" }),
        // Rare, because little can happen afterwards.
        (3, 0) => erase(s),
        _ => Write::CreateSession(NewSession {
            title: Some("made".into()),
            parent_session_id: Some(sid("s0")),
            ..NewSession::with_id(sid(s))
        }),
    }
}

fn active() -> SessionPatch {
    SessionPatch {
        status: Some(SessionStatus::Active),
        state: Some(Some("again".into())),
        ..SessionPatch::default()
    }
}
