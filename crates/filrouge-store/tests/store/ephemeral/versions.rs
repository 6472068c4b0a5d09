//! Versions of a session that must not be used are detected, and removed where possible.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use filrouge_store::command::{Outcome, Scope, Write};
use filrouge_store::contract::drafts::{delta, put, stream};
use filrouge_store::contract::fixture::{
    anyone, cmd, code, finalize, keyed, operator, sid, start, user,
};
use filrouge_store::contract::session_writes::{erase, event, link};
use filrouge_store::contract::{Fixture, differential};
use filrouge_store::hot::{Edition, EphemeralSessions};
use filrouge_store::read::TurnQuery;
use filrouge_types::{ErrorCode, Failure, TurnStatus};

use crate::ephemeral::store::{Store, id, tenant};

async fn holds_session(process: &EphemeralSessions) -> bool {
    process.has_session(&tenant(), &id("s")).await.unwrap()
}

/// The gate is called on every read and write; a version that it refuses is removed, even if a process has it in its
/// cache.
#[tokio::test]
async fn the_gate_checks_every_use() {
    let (store, who) = (Store::fake(), anyone());
    let gate_calls = || store.gate.calls.load(Ordering::SeqCst);
    let (process, f) = store.process_and_fixture();
    f.complete_turn(&who, "s", "r1", "a").await;
    assert_eq!(gate_calls(), 0, "there was no session yet");
    f.complete_turn(&who, "s", "r2", "b").await;
    assert_eq!(gate_calls(), 1);
    let other = store.process();
    for _ in 0..3 {
        assert!(holds_session(&other).await);
    }
    assert_eq!((gate_calls(), other.counts().loads), (4, 1));
    store.gate.min_version.store(9, Ordering::SeqCst);
    let refused = f.write(&who, finalize("s", turn_id(&store, "r1"), Some("z")));
    assert_eq!(code(refused.await), ErrorCode::TurnExpired);
    assert!(store.hot.sessions.lock().unwrap().is_empty());
    assert!(!holds_session(&process).await && !holds_session(&other).await);
    assert_eq!(process.counts().went_back, 0);
}

/// A process with a cached version from before a redaction neither shows nor continues it when the store is reverted to
/// that version.
#[tokio::test]
async fn a_version_from_before_a_redaction_is_not_continued() {
    for reads in [true, false] {
        let (store, who) = (Store::fake(), anyone());
        let ((_, f), (b, g)) = (store.process_and_fixture(), store.process_and_fixture());
        f.complete_turn(&who, "s", "r1", "needle").await;
        assert!(holds_session(&b).await);
        let older = store.hot.dump(store.key("s"));
        store.gate.min_version.store(2, Ordering::SeqCst);
        store.hot.set(store.key("s"), older);
        if reads {
            assert!(!holds_session(&b).await);
        } else {
            let turn = g.complete_turn(&who, "s", "r2", "new").await;
            assert_eq!((turn.ordinal, turn.first_seq), (1, 1));
        }
    }
}

fn turn_id(
    store: &Store<crate::ephemeral::fake_hot_store::FakeHotStore>,
    request: &str,
) -> filrouge_types::TurnId {
    let request = filrouge_types::RequestId::new(request).unwrap();
    store.keyring.turn_id(&tenant(), &id("s"), &request)
}

/// Writes a session with a row of every kind.
async fn write_every_kind(f: &Fixture, who: &Scope) {
    let open = f.start(who, "s", "r1").await;
    let mut observation = keyed("k", "observed");
    observation.agent = Some("agent".into());
    f.append(who, &open, vec![observation]).await.unwrap();
    f.complete_turn(who, "s", "r2", "b").await;
    f.record(who, event("s", "e", "kind")).await.unwrap();
    let draft = |number, deltas| put("s", open.turn_id, stream(1), number, deltas);
    f.write(who, draft(0, Vec::new())).await.unwrap();
    f.write(who, draft(1, vec![delta(1, true, "text")]))
        .await
        .unwrap();
}

async fn read_all(f: &Fixture, who: &Scope) -> Result<(), Failure> {
    let (ledger, s) = (&f.ledger, sid("s"));
    let query = TurnQuery {
        limit: 9,
        ..TurnQuery::default()
    };
    ledger.turns(who, &s, query).await?;
    ledger.items(who, &s, 0, 99).await?;
    ledger.events(who, &s, 0, 9).await?;
    ledger.drafts(who, &s, BTreeMap::new()).await?;
    Ok(())
}

/// Data that was modified or deleted in the hot store is never returned. Damage that loading detects removes the
/// session; other damage fails the query that reads it.
#[tokio::test]
async fn tampering_is_detected() {
    let (store, who) = (Store::fake(), anyone());
    write_every_kind(&store.fixture(), &who).await;
    let key = store.key("s");
    let (edition, fields) = store.hot.dump(key);
    // The first letter of a field's name is its kind: agent, chunk, head, draft, event, item key, record, session or
    // turn.
    let kinds: std::collections::BTreeSet<u8> = fields.keys().map(|name| name[0]).collect();
    assert_eq!(kinds, b"achdeirst".iter().copied().collect());
    assert!(read_all(&store.fixture(), &who).await.is_ok());
    let assert_detected = async |name: &[u8], removes_session: bool, how: &str| {
        let (process, f) = store.process_and_fixture();
        let expected = match removes_session {
            true => ErrorCode::SessionNotFound,
            false => ErrorCode::IntegrityError,
        };
        let read = read_all(&f, &who).await;
        assert_eq!(code(read), expected, "{name:?} {how}");
        assert_eq!(process.counts().damaged, u64::from(removes_session));
        assert_eq!(
            store.hot.sessions.lock().unwrap().contains_key(&key),
            !removes_session
        );
    };
    for name in fields.keys() {
        // Keys of items and agents are derived; the rows that they lead to are verified.
        if !b"ai".contains(&name[0]) {
            let mut changed = fields.clone();
            *changed.get_mut(name).unwrap().last_mut().unwrap() ^= 1;
            store.hot.set(key, (edition, changed));
            assert_detected(name, b"dehst".contains(&name[0]), "changed").await;
        }
        // A missing event or draft of an ephemeral session cannot be detected.
        if b"shtrc".contains(&name[0]) {
            let mut missing = fields.clone();
            missing.remove(name);
            store.hot.set(key, (edition, missing));
            assert_detected(name, b"hst".contains(&name[0]), "missing").await;
        }
    }
    // The fields of one session are stored under the name of another.
    store.hot.set(store.key("other"), (edition, fields));
    let read = store.fixture().session(&who, "other").await;
    assert_eq!(code(read), ErrorCode::SessionNotFound);
}

/// A damaged field loses the session, but later writes succeed.
#[tokio::test]
async fn a_damaged_session_is_replaced_by_a_new_one() {
    let (store, who) = (Store::fake(), anyone());
    let (process, f) = store.process_and_fixture();
    let key = store.key("s");
    for (n, value) in [&b"junk"[..], b""].into_iter().enumerate() {
        f.complete_turn(&who, "s", "r1", "a").await;
        let (mut edition, mut fields) = store.hot.dump(key);
        edition.version += 1;
        fields.insert(b"h".to_vec(), value.to_vec());
        store.hot.set(key, (edition, fields));
        let turn = f.complete_turn(&who, "s", "r2", "b").await;
        assert_eq!((turn.ordinal, turn.first_seq), (1, 1));
        assert_eq!(process.counts().damaged, n as u64 + 1);
        process.forget(&tenant(), &id("s"), None).await.unwrap();
    }
    // Damage that only a query detects does not prevent a login.
    f.complete_turn(&who, "s", "r1", "a").await;
    let (edition, mut fields) = store.hot.dump(key);
    let record = fields.iter_mut().find(|(name, _)| name[0] == b'r').unwrap();
    *record.1.last_mut().unwrap() ^= 1;
    store.hot.set(key, (edition, fields));
    let (process, f) = store.process_and_fixture();
    assert_eq!(
        code(f.ledger.items(&who, &sid("s"), 0, 9).await),
        ErrorCode::IntegrityError
    );
    assert_eq!(process.counts().damaged, 0);
    let keep = Default::default();
    let extracted = process.extract(&tenant(), &id("s"), &keep).await;
    assert!(extracted.unwrap().is_none());
    assert_eq!(process.counts().damaged, 1);
    assert!(!holds_session(&process).await);
    // An intact session is not removed while its store has suspects.
    f.complete_turn(&who, "s", "r1", "a").await;
    f.ledger.distrust("the complete store".to_owned());
    let extracted = process.extract(&tenant(), &id("s"), &keep).await;
    assert_eq!(code(extracted), ErrorCode::IntegrityError);
    assert!(holds_session(&process).await);
    assert_eq!(process.counts().damaged, 1);
}

/// A turn sends the same number of bytes after a hundred others, and a refused or repeated write makes no commit.
#[tokio::test]
async fn a_write_sends_only_changed_fields() {
    let (store, who) = (Store::fake(), anyone());
    let (process, f) = store.process_and_fixture();
    let mut sizes = Vec::new();
    for n in 100..220 {
        f.complete_turn(&who, "s", &format!("r{n}"), "words").await;
        let change = store.hot.newest_change();
        assert_eq!(change.removes, Vec::<Vec<u8>>::new());
        let bytes: usize = change.puts.iter().map(|f| f.value.len()).sum();
        sizes.push((change.puts.len(), bytes));
    }
    assert_eq!(sizes[5].0, sizes[119].0);
    assert!(sizes[119].1 < sizes[5].1 + 16, "{sizes:?}");
    assert_eq!((process.counts().loads, store.hot.commits()), (1, 120));
    let done = turn_id(&store, "r101");
    let refused = f.write(&who, finalize("s", done, Some("other"))).await;
    assert_eq!(code(refused), ErrorCode::IdempotencyMismatch);
    f.complete_turn(&who, "s", "r102", "words").await;
    f.write(&who, finalize("s", done, Some("words")))
        .await
        .unwrap();
    assert_eq!((process.counts().loads, store.hot.commits()), (1, 120));
}

/// A retry of a write whose answer was lost is a replay.
#[tokio::test]
async fn a_lost_answer_is_replayed() {
    let (store, who) = (Store::fake(), anyone());
    let f = store.fixture();
    f.complete_turn(&who, "s", "r1", "a").await;
    store.hot.fails_after.store(true, Ordering::SeqCst);
    let lost = f.try_start(&who, start(&who, "s", "r2", "r2")).await;
    assert_eq!(code(lost), ErrorCode::HotUnavailable);
    let again = f.start(&who, "s", "r2").await;
    assert_eq!((again.replayed, again.ordinal), (true, 2));
    assert_eq!(f.last_seq(&who, "s").await, 3);
}

/// A cached session is compared with the store before it is used, even for a refusal.
#[tokio::test]
async fn a_stale_session_never_answers() {
    let (store, who) = (Store::fake(), anyone());
    let (a, b) = (store.fixture(), store.fixture());
    let open = a.start(&who, "s", "r").await;
    let refused = b.try_start(&who, {
        let mut start = start(&who, "s", "r2", "q");
        start.concurrent_turns = filrouge_store::command::ConcurrentTurns::Reject;
        start
    });
    assert_eq!(code(refused.await), ErrorCode::TurnOpen);
    let done = a
        .write_turn(&who, finalize("s", open.turn_id, Some("x")))
        .await;
    assert_eq!(done.unwrap().status, TurnStatus::Finalized);
    // The cached session of `b` still has the turn open.
    let again = b.start(&who, "s", "r").await;
    assert_eq!(
        (again.status, again.replayed),
        (TurnStatus::Finalized, true)
    );
    a.write_session(&who, link("s", "ann")).await.unwrap();
    assert_eq!(code(b.session(&who, "s").await), ErrorCode::SessionNotFound);
    let late = b.write(&who, finalize("s", open.turn_id, Some("x"))).await;
    assert_eq!(code(late), ErrorCode::SessionNotFound);
}

#[tokio::test]
async fn an_absent_turn_has_expired_for_an_anonymous_caller() {
    let (store, who) = (Store::fake(), anyone());
    let (process, f) = store.process_and_fixture();
    let absent = turn_id(&store, "r");
    let late = f.write(&who, finalize("s", absent, Some("x"))).await;
    assert_eq!(code(late), ErrorCode::TurnExpired);
    for (who, expected) in [
        (anyone(), ErrorCode::TurnExpired),
        (user("ann"), ErrorCode::SessionNotFound),
        (operator("t"), ErrorCode::SessionNotFound),
    ] {
        let late = f.write(&who, finalize("s", absent, Some("x"))).await;
        assert_eq!(code(late), expected);
        let (sender, answer) = std::sync::mpsc::channel();
        process.inspect_absent(Box::new({
            let who = who.clone();
            move |snapshot| {
                sender
                    .send(snapshot.turn(&who, &sid("s"), &absent))
                    .unwrap();
            }
        }));
        assert_eq!(code(answer.recv().unwrap()), expected);
        assert_eq!(code(read_turn(&f, &who, absent).await), expected);
    }
    f.start(&who, "s", "other").await;
    assert_eq!(
        code(read_turn(&f, &who, absent).await),
        ErrorCode::TurnNotFound
    );
    // Of an erased session only the row and the head remain.
    f.write(&who, erase("s")).await.unwrap();
    assert_eq!(store.hot.dump(store.key("s")).1.len(), 2);
    let extracted = store.extract("s", &Default::default()).await;
    assert_eq!(code(extracted), ErrorCode::SessionErased);
}

async fn read_turn(
    f: &Fixture,
    who: &Scope,
    id: filrouge_types::TurnId,
) -> Result<filrouge_types::Turn, Failure> {
    f.ledger.turn(who, &sid("s"), id).await
}

#[tokio::test]
async fn only_the_newest_version_is_forgotten() {
    let (store, who) = (Store::fake(), anyone());
    let (process, f) = store.process_and_fixture();
    let write = Write::Start(Arc::new(start(&who, "s", "r", "q")));
    let (outcome, edition) = process.write(&cmd(&who, write)).await.unwrap();
    assert!(matches!(outcome, Outcome::Turn(..)));
    f.complete_turn(&who, "s", "r2", "a").await;
    let forget = |edition: Option<Edition>| {
        let process = process.clone();
        async move { process.forget(&tenant(), &id("s"), edition).await.unwrap() }
    };
    let newest = store.hot.dump(store.key("s")).0;
    assert_eq!(newest.version, edition.version + 1);
    let other = Edition {
        nonce: edition.nonce,
        ..newest
    };
    for edition in [edition, other] {
        assert!(!forget(Some(edition)).await);
        assert!(holds_session(&process).await);
    }
    assert!(forget(Some(newest)).await);
    assert!(!holds_session(&process).await);
    assert!(forget(None).await);
    let (tenant, s) = (tenant(), id("s"));
    let inspected = process.inspect(
        &tenant,
        &s,
        Box::new(|_| panic!("a query of an absent session")),
    );
    assert_eq!(inspected.await, Ok(false));
}

/// No sweep covers ephemeral sessions: the caller of the next turn interrupts abandoned ones.
#[tokio::test]
async fn idle_turns_are_interrupted_by_the_next_turn() {
    let (store, who) = (Store::fake(), anyone());
    let f = store.process_and_fixture().1;
    let idle_turn = f.start(&who, "s", "r1").await;
    let recorded = f.start(&who, "s", "r2").await;
    let repeated = f.start(&who, "s", "r3").await;
    store.clock.advance(15 * 60 * 1_000_000);
    let heartbeat = put("s", recorded.turn_id, stream(1), 0, Vec::new());
    f.write(&who, heartbeat).await.unwrap();
    store.clock.advance(1);
    // A repeated start shows that its caller is still there.
    f.start(&who, "s", "r3").await;
    let status = async |id| read_turn(&f, &who, id).await.unwrap().status;
    assert_eq!(status(idle_turn.turn_id).await, TurnStatus::Interrupted);
    assert_eq!(status(recorded.turn_id).await, TurnStatus::Open);
    assert_eq!(status(repeated.turn_id).await, TurnStatus::Open);
    // A refused start interrupts nothing.
    store.clock.advance(20 * 60 * 1_000_000);
    let commits = store.hot.commits();
    let mut refused = start(&who, "s", "r4", "q");
    refused.batch = filrouge_store::record::Batch::default();
    let refused = f.try_start(&who, refused).await;
    assert_eq!(code(refused), ErrorCode::Invalid);
    assert_eq!(
        (store.hot.commits(), status(repeated.turn_id).await),
        (commits, TurnStatus::Open)
    );
}

/// The caller of a start knows nothing of the items of interruptions that this start causes.
#[tokio::test]
async fn a_start_expects_the_seq_before_its_interruptions() {
    let (store, who) = (Store::fake(), anyone());
    let f = store.process_and_fixture().1;
    let idle_turn = f.start(&who, "s", "r1").await;
    store.clock.advance(20 * 60 * 1_000_000);
    let commits = store.hot.commits();
    let mut next = start(&who, "s", "r2", "q");
    next.expected_seq = Some(2);
    let refused = f.try_start(&who, next.clone()).await.unwrap_err();
    assert_eq!(
        (refused.code, refused.actual_seq),
        (ErrorCode::SeqConflict, Some(1))
    );
    assert_eq!(store.hot.commits(), commits);
    next.expected_seq = Some(1);
    let turn = f.try_start(&who, next).await.unwrap();
    assert_eq!(turn.first_seq, 3);
    let interrupted = read_turn(&f, &who, idle_turn.turn_id).await.unwrap();
    assert_eq!(interrupted.status, TurnStatus::Interrupted);
}

/// Sessions that are not cached are loaded again.
#[tokio::test]
async fn the_cache_is_bounded() {
    let (store, who) = (Store::fake(), anyone());
    let process = std::sync::Arc::new(store.process().with_cache_bytes(0));
    let f = store.fixture_with(process.clone());
    f.complete_turn(&who, "s0", "r1", "a").await;
    f.complete_turn(&who, "s0", "r2", "b").await;
    let seen = differential::session_readings(&f).await;
    assert_eq!(differential::session_readings(&store.fixture()).await, seen);
    assert!(process.counts().loads > 10);
    assert_eq!(process.counts().went_back, 0);
}
