//! Changed sessions of a store with several lanes.

use std::collections::BTreeSet;
use std::sync::Arc;

use filrouge_store::command::{Command, NewSession, RedactionTarget, Write};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::record::Seqs;
use filrouge_store::{Keyring, Lanes, OsEntropy, Scope};
use filrouge_types::{FixedClock, JsonText};

use super::*;
use crate::{Engine, PatchSession, RecordEvent, Settings, StartTurn};

struct World {
    engine: Engine,
    clock: Arc<FixedClock>,
    lanes: Lanes,
}

impl World {
    fn new(lanes: u16) -> Self {
        let lanes = Lanes::new(lanes).unwrap();
        let (clock, entropy) = (Arc::new(FixedClock::at(0)), Arc::new(OsEntropy));
        let keyring = Arc::new(Keyring::single([7; 32]));
        let ledger = MemoryLedger::new(keyring, entropy.clone(), clock.clone()).with_lanes(lanes);
        let settings = Settings::default();
        let engine = Engine::new(Arc::new(ledger), entropy, clock.clone(), settings);
        Self {
            engine,
            clock,
            lanes,
        }
    }

    async fn create(&self, id: SessionId) {
        let command = Command {
            scope: Scope::new(TenantId::default_tenant(), Viewer::Operator),
            write: Write::CreateSession(NewSession::with_id(id)),
        };
        self.engine.ledger().write(command).await.unwrap();
    }

    /// Creates a session in this lane, one microsecond after the previous one.
    async fn create_in(&self, lane: u16, name: &str) {
        let mut ids = (0..).map(|n| format!("{name}{n}").parse::<SessionId>().unwrap());
        let tenant = TenantId::default_tenant();
        let id = ids.find(|id| self.lanes.of_session(&tenant, id) == Lane::new(lane));
        self.clock.advance(1);
        self.create(id.unwrap()).await;
    }

    async fn changed_after(&self, after: &Position, commits: usize) -> Option<ChangedSessions> {
        let feed = &self.engine.index_feed;
        feed.changed_after(after.clone(), commits).await.unwrap()
    }
}

#[tokio::test]
async fn pages_contain_the_sessions_of_all_lanes_once() {
    let world = World::new(4);
    for n in 0..40 {
        world.create(format!("s{n}").parse().unwrap()).await;
    }
    for limit in [1, 7, 8, 100_u64] {
        let (mut after, mut sessions) = (Position::default(), BTreeSet::new());
        loop {
            let page = world.changed_after(&after, limit as usize).await.unwrap();
            assert_eq!(page.newest, 40);
            if page.end == after {
                break;
            }
            let count = page.end.commit_count() - after.commit_count();
            assert_eq!(page.sessions.len() as u64, count);
            assert!(count <= limit.max(4));
            // A lane with many commits delays no other lane.
            let is_read = |lane| page.end.lane(lane).commit_no > 0;
            assert!(world.lanes.iter().all(is_read));
            for changed in page.sessions {
                assert!(sessions.insert(changed.session));
            }
            after = page.end;
        }
        assert_eq!(sessions.len(), 40);
        assert_eq!(after, world.engine.index_feed.position());
    }
}

#[tokio::test]
async fn a_position_that_one_lane_does_not_have_is_refused() {
    let world = World::new(3);
    for lane in 0..3 {
        world.create_in(lane, "s").await;
    }
    let position = world.engine.index_feed.position();
    assert!(world.changed_after(&position, 9).await.is_some());
    for lane in world.lanes.iter() {
        let at = position.lane(lane);
        let other_link = LanePosition {
            link: [9; MAC_BYTES],
            ..at
        };
        let missing = LanePosition {
            commit_no: at.commit_no + 1,
            ..at
        };
        for changed in [other_link, missing] {
            let mut other = position.clone();
            other.set(lane, changed);
            assert_eq!(world.changed_after(&other, 9).await, None);
        }
    }
    let mut other = position;
    other.set(Lane::new(3), LanePosition::default());
    assert_eq!(world.changed_after(&other, 9).await, None);
}

#[tokio::test]
async fn the_lane_that_is_furthest_behind_determines_since() {
    let world = World::new(2);
    let since = async |after: &Position| world.changed_after(after, 9).await.unwrap().since;
    let at = |micros| Some(Timestamp::from_micros(micros));
    world.create_in(0, "a").await;
    let first = world.engine.index_feed.position();
    world.create_in(1, "b").await;
    let both = world.engine.index_feed.position();
    assert_eq!(since(&Position::default()).await, None);
    // The position is at the beginning of the second lane.
    assert_eq!(since(&first).await, None);
    assert_eq!(since(&both).await, None);
    world.create_in(1, "c").await;
    assert_eq!(since(&both).await, at(2));
    world.create_in(0, "d").await;
    assert_eq!(since(&both).await, at(1));
}

#[tokio::test]
async fn a_session_is_read_at_the_newest_commit_of_its_lane() {
    let world = World::new(2);
    world.create_in(0, "a").await;
    for n in 0..5 {
        world.create_in(1, &format!("b{n}-")).await;
    }
    let page = world.changed_after(&Position::default(), 9).await.unwrap();
    for changed in page.sessions {
        let caller = Caller::operator(changed.tenant);
        let feed = &world.engine.index_feed;
        let read = feed.read_session(&caller, &changed.session, Extent::Entire);
        let read = read.await.unwrap().unwrap();
        let lane = world
            .lanes
            .of_session(&TenantId::default_tenant(), &changed.session);
        let newest = feed.position().lane(lane).commit_no;
        assert_eq!(read.commit_no, newest);
        assert!(changed.newest <= newest);
    }
}

/// A unit that is read alone equals the same unit of the entire session; what does not exist is left out.
#[tokio::test]
async fn units_of_several_sessions_are_read_at_once() {
    let world = World::new(2);
    world.create_in(0, "a").await;
    let caller = Caller::operator(TenantId::default_tenant());
    let page = world.changed_after(&Position::default(), 9).await.unwrap();
    let session = &page.sessions[0].session;
    for request in ["one", "two"] {
        let start = StartTurn {
            question_neutral: Some(JsonText::from_plain(request)),
            answer_neutral: Some(JsonText::from_plain("answered")),
            ..StartTurn::new(request.parse().unwrap())
        };
        let started = world.engine.turns.start(&caller, session.clone(), start);
        started.await.unwrap();
    }
    // The redaction is an item that belongs to no turn.
    let (seqs, reason) = (Seqs::from_ranges(vec![(1, 1)]).unwrap(), "asked to");
    let target = RedactionTarget::Items(seqs);
    let redact = world
        .engine
        .erasure
        .redact(&caller, session.clone(), target, reason);
    redact.await.unwrap();
    let feed = &world.engine.index_feed;
    let entire = feed.read_session(&caller, session, Extent::Entire);
    let entire = entire.await.unwrap().unwrap().conversation;
    let seq = entire.loose[0].seq;
    let units = |turns: &[u64], items: &[u64]| Extent::Units {
        turns: turns.iter().copied().collect(),
        items: items.iter().copied().collect(),
    };
    let missing = "missing".parse().unwrap();
    let parts = vec![
        (session.clone(), units(&[0, 2, 3, u64::MAX], &[])),
        (missing, units(&[1], &[])),
        (
            session.clone(),
            units(&[1, 2], &[0, 1, seq, seq + 1, u64::MAX]),
        ),
        (session.clone(), units(&[], &[])),
    ];
    let read = feed.read_sessions(&caller, parts).await.unwrap();
    let [second, missing, all, none] = <[SessionPart; 4]>::try_from(read).unwrap();
    let second = second.unwrap().unwrap();
    assert_eq!(
        (second.turns.as_slice(), second.loose.len()),
        (&entire.turns[1..], 0)
    );
    assert_eq!(missing.unwrap(), None);
    assert_eq!(all.unwrap().unwrap(), entire);
    let none = none.unwrap().unwrap();
    assert_eq!(
        (none.session, none.turns.len() + none.loose.len()),
        (entire.session, 0)
    );
}

#[tokio::test]
async fn events_and_patches_are_changes_only_where_they_are_asked_for() {
    let world = World::new(1);
    world.create("s".parse().unwrap()).await;
    let (feed, caller) = (
        &world.engine.index_feed,
        Caller::operator(TenantId::default_tenant()),
    );
    let created = feed.position();
    let event = RecordEvent {
        key: "started".parse().unwrap(),
        kind: "call_started".into(),
        at: None,
        detail: None,
    };
    let recorded = world
        .engine
        .events
        .record(&caller, "s".parse().unwrap(), event);
    recorded.await.unwrap();
    let page = world.changed_after(&created, 9).await.unwrap();
    assert!(page.sessions.is_empty());
    let all = feed.all_changed_after(created, 9).await.unwrap().unwrap();
    assert_eq!(all.sessions.len(), 1);
    assert!(!all.sessions[0].is_patched && all.sessions[0].seq_ranges.is_empty());

    let patch = PatchSession {
        title: Some(Some("a title".into())),
        ..PatchSession::default()
    };
    let patched = world
        .engine
        .sessions
        .patch(&caller, "s".parse().unwrap(), patch, None);
    patched.await.unwrap();
    let page = world.changed_after(&all.end, 9).await.unwrap();
    assert!(page.sessions[0].is_patched);
}
