//! The writes that a lease refuses to others (DESIGN §6).

use std::sync::Arc;

use filrouge_types::{Channel, Clock, ErrorCode, SessionStatus, Turn, TurnStatus};

use super::drafts;
use super::fixture::{
    Fixture, anyone, append, cancel, code, fail, finalize, interrupt, item, keyed, operator,
    redact_items, replacement, sid, start, start_with, user,
};
use super::live_writes::{SECOND, TTL, acquire, checkpoint, queued, under};
use super::session_writes::{close_session, event, link, metadata, patch, title};
use crate::command::{Outcome, Scope, SessionPatch, Start, Write};

/// A session with an open turn, a finalized one, an interrupted one and one that is being recorded.
pub struct BusySession {
    pub session: String,
    pub open: Turn,
    pub done: Turn,
    pub recorded: Turn,
}

impl BusySession {
    pub async fn new(f: &Fixture, who: &Scope, session: &str) -> Self {
        let interrupted = f.start(who, session, "gone").await;
        f.clock.advance(SECOND);
        let now = f.clock.now().as_micros();
        let interrupt_command = interrupt(session, interrupted.turn_id, now);
        f.write(who, interrupt_command).await.unwrap();
        Self {
            session: session.to_owned(),
            open: f.start(who, session, "open").await,
            done: f.complete_turn(who, session, "done", "a").await,
            recorded: f.start(who, session, "recorded").await,
        }
    }

    /// Every write that needs the lease, by name.
    pub fn writes(&self, who: &Scope) -> Vec<(&'static str, Write)> {
        let (s, open) = (self.session.as_str(), self.open.turn_id);
        let started = |start| Write::Start(Arc::new(start));
        let complete = start_with(who, s, "new", "q", Some("a"), |_, _| {});
        let patch_session = |change| patch(s, change);
        let labeled = SessionPatch {
            state: Some(Some("LABEL".into())),
            ..SessionPatch::default()
        };
        let paused = SessionPatch {
            status: Some(SessionStatus::Paused),
            ..SessionPatch::default()
        };
        let stream = drafts::stream(1);
        vec![
            ("start", started(start(who, s, "new", "q"))),
            ("complete turn", started(complete)),
            ("reopening", started(start(who, s, "gone", "gone"))),
            (
                "replacement",
                replacement(who, s, "rep", self.done.turn_id, "b"),
            ),
            (
                "append",
                append(s, open, vec![item(Channel::Plan, "p")], None),
            ),
            ("finalize", finalize(s, open, Some("a"))),
            ("fail", fail(s, open, "no")),
            ("cancel", cancel(s, open)),
            ("checkpoint", checkpoint(s, None, Some("L"), "{}")),
            ("state", patch_session(labeled)),
            ("status", patch_session(paused)),
            ("close", close_session(s, None)),
            (
                "draft",
                drafts::put(s, self.recorded.turn_id, stream, 0, Vec::new()),
            ),
        ]
    }
}

/// The number of these writes.
pub const WRITES: usize = 13;

pub async fn a_live_lease_keeps_others_from_writing(f: &Fixture) {
    let who = user("ann");
    let busy = BusySession::new(f, &who, "s").await;
    let older = f.acquire_lease(&who, "s", "a").await;
    f.clock.advance(TTL * SECOND);
    let fence = f.acquire_lease(&who, "s", "b").await;
    let position = f.ledger.position();
    let writes = busy.writes(&who);
    assert_eq!(writes.len(), WRITES);
    for (name, write) in &writes {
        for who in [&who, &operator("t")] {
            let refused = f.write(who, write.clone()).await.unwrap_err();
            assert_eq!(refused.code, ErrorCode::LeaseHeld, "{name}");
            let held = refused.held.unwrap();
            assert_eq!((held.fence, held.holder.as_deref()), (fence, Some("b")));
            assert!(held.expires_at.is_some());
        }
        for wrong in [0, older, fence + 1, u64::MAX] {
            for scope in [under(&who, wrong), queued(&who, wrong)] {
                let refused = f.write(&scope, write.clone()).await;
                assert_eq!(code(refused), ErrorCode::StaleFence, "{name} by {wrong}");
            }
        }
    }
    f.clock.advance(TTL * SECOND);
    for (name, write) in &writes {
        let refused = f.write(&under(&who, fence), write.clone()).await;
        assert_eq!(code(refused), ErrorCode::LeaseExpired, "{name}");
        let refused = f.write(&under(&who, older), write.clone()).await;
        assert_eq!(code(refused), ErrorCode::StaleFence, "{name}");
    }
    assert_eq!(f.ledger.position(), position, "nothing was written");
    f.assert_intact().await;
}

/// The holder of the newest fence (live or queued) may write, and anyone may when the session has no holder.
pub async fn only_the_holder_writes_and_anyone_if_there_is_none(f: &Fixture) {
    let who = user("ann");
    for n in 0..WRITES {
        for (live, with) in [
            ("live", 1),
            ("expired, and queued", 2),
            ("expired, without", 3),
        ] {
            let s = format!("s{n} {live}");
            let busy = BusySession::new(f, &who, &s).await;
            let fence = f.acquire_lease(&who, &s, "a").await;
            if with > 1 {
                f.clock.advance(TTL * SECOND);
            }
            let scope = match with {
                1 => under(&who, fence),
                2 => queued(&who, fence),
                _ => who.clone(),
            };
            let (name, write) = busy.writes(&who).swap_remove(n);
            let done = f.write(&scope, write).await;
            done.unwrap_or_else(|e| panic!("{name} {live}: {e}"));
            let lease = f.lease(&who, &s).await.unwrap();
            let holder = (with == 1).then_some("a");
            assert_eq!((lease.fence, lease.holder.as_deref()), (fence, holder));
        }
    }
    f.assert_intact().await;
}

pub async fn some_writes_need_no_fence(f: &Fixture) {
    let who = anyone();
    let busy = BusySession::new(f, &who, "s").await;
    let stream = drafts::stream(1);
    let recorded = busy.recorded.turn_id;
    let begun = drafts::put("s", recorded, stream, 0, vec![drafts::delta(0, true, "x")]);
    f.write(&who, begun).await.unwrap();
    f.clock.advance(1);
    let fence = f.acquire_lease(&who, "s", "a").await;
    let lease = f.lease(&who, "s").await.unwrap();
    f.clock.advance(1);
    for write in [
        patch("s", title("t")),
        patch("s", metadata(r#"{"a":1}"#)),
        redact_items("s", &[(1, 1)]),
        Write::RecordEvent(Box::new(event("s", "k", "call_lock_timeout"))),
        drafts::abandon("s", recorded, stream, i64::MAX),
        link("s", "ann"),
    ] {
        let outcome = f.write(&who, write).await.unwrap();
        assert!(
            !matches!(outcome, Outcome::Interrupted(None)),
            "{outcome:?}"
        );
        let now = f.lease(&operator("t"), "s").await.unwrap();
        assert_eq!(now, lease, "the lease is unchanged");
    }
    let ann = user("ann");
    assert_eq!(
        code(f.write_lease(&ann, acquire("s", "b")).await),
        ErrorCode::LeaseTimeout
    );
    f.complete_turn(&under(&ann, fence), "s", "more", "a").await;
    f.assert_intact().await;
    f.erase(&ann, "s").await.unwrap();
    let late = f
        .write(&under(&ann, fence), cancel("s", busy.open.turn_id))
        .await;
    assert_eq!(code(late), ErrorCode::SessionErased);
    f.assert_intact().await;
}

pub async fn a_silent_holder_is_not_interrupted(f: &Fixture) {
    let who = user("ann");
    let turn = f.start(&who, "s", "r").await;
    let fence = f.acquire_lease(&who, "s", "a").await;
    f.clock.advance(SECOND);
    let now = f.clock.now().as_micros();
    let interrupt_command = interrupt("s", turn.turn_id, now);
    for who in [under(&who, fence), who.clone(), operator("t")] {
        let outcome = f.write(&who, interrupt_command.clone()).await.unwrap();
        assert_eq!(outcome, Outcome::Interrupted(None));
    }
    f.clock.advance(TTL * SECOND);
    let outcome = f.write(&operator("t"), interrupt_command).await.unwrap();
    assert!(matches!(outcome, Outcome::Interrupted(Some(_))));
    let turn = f.ledger.turn(&who, &sid("s"), turn.turn_id).await.unwrap();
    assert_eq!(turn.status, TurnStatus::Interrupted);
    f.assert_intact().await;
}

/// The checks are in this order: replay, fence, expected seq, turn.
pub async fn checks_keep_their_order(f: &Fixture) {
    let who = user("ann");
    let busy = BusySession::new(f, &who, "s").await;
    let (open, done) = (busy.open.turn_id, busy.done.turn_id);
    let older = f.acquire_lease(&who, "s", "a").await;
    let held = under(&who, older);
    let replayed = [
        append("s", open, vec![keyed("k", "x")], None),
        Write::Start(Arc::new(start(&who, "s", "open", "open"))),
        checkpoint("s", Some(3), Some("L"), r#"{"a":1}"#),
        finalize("s", open, Some("a")),
    ];
    for write in &replayed {
        f.write(&held, write.clone()).await.unwrap();
    }
    f.clock.advance(TTL * SECOND);
    let fence = f.acquire_lease(&who, "s", "b").await;
    let position = f.ledger.position();
    for scope in [under(&who, older), under(&who, fence), who.clone()] {
        for write in &replayed {
            f.write(&scope, write.clone()).await.unwrap();
        }
    }
    assert_eq!(f.ledger.position(), position, "the first write is replayed");
    let seq = |expected| {
        append(
            "s",
            busy.recorded.turn_id,
            vec![keyed("n", "x")],
            Some(expected),
        )
    };
    let last = f.last_seq(&who, "s").await;
    let start_after = |expected| {
        Write::Start(Arc::new(Start {
            expected_seq: Some(expected),
            ..start(&who, "s", "later", "q")
        }))
    };
    let closed = append("s", done, vec![keyed("n", "x")], None);
    let otherwise = cancel("s", done);
    let too_far = checkpoint("s", Some(last + 1), None, "{}");
    for (write, behind) in [
        (seq(last + 1), ErrorCode::SeqConflict),
        (seq(0), ErrorCode::SeqConflict),
        (start_after(last + 1), ErrorCode::SeqConflict),
        (start_after(0), ErrorCode::SeqConflict),
        (closed, ErrorCode::TurnClosed),
        (otherwise, ErrorCode::TurnClosed),
        (too_far, ErrorCode::Invalid),
    ] {
        let refused = f.write(&under(&who, older), write.clone()).await;
        assert_eq!(code(refused), ErrorCode::StaleFence);
        let refused = f.write(&who, write.clone()).await;
        assert_eq!(code(refused), ErrorCode::LeaseHeld);
        let refused = f.write(&under(&who, fence), write).await;
        assert_eq!(code(refused), behind);
    }
    f.assert_intact().await;
}
