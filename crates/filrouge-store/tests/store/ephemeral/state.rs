//! Which state is used, and what becomes of one that must not be.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use filrouge_store::command::{Outcome, Scope, Write};
use filrouge_store::contract::asks::{erase, event, link};
use filrouge_store::contract::drafts::{delta, put, stream};
use filrouge_store::contract::fixture::{
    anyone, cmd, code, finalize, keyed, operator, sid, start, user,
};
use filrouge_store::contract::{Fixture, differential};
use filrouge_store::hot::{Edition, EphemeralSessions};
use filrouge_store::read::TurnQuery;
use filrouge_types::{ErrorCode, Failure, TurnStatus};

use crate::ephemeral::store::{Store, id, tenant};

async fn holds(process: &EphemeralSessions) -> bool {
    process.holds(&tenant(), &id("s")).await.unwrap()
}

/// The gate is asked whenever a state is shown or written to; what it refuses is forgotten, also where it is held.
#[tokio::test]
async fn the_gate_is_asked() {
    let (store, who) = (Store::plain(), anyone());
    let times = || store.gate.times.load(Ordering::SeqCst);
    let (process, f) = store.both();
    f.whole(&who, "s", "r1", "a").await;
    assert_eq!(times(), 0, "there was nothing yet");
    f.whole(&who, "s", "r2", "b").await;
    assert_eq!(times(), 1);
    let other = store.process();
    for _ in 0..3 {
        assert!(holds(&other).await);
    }
    assert_eq!((times(), other.counts().loads), (4, 1));
    store.gate.from.store(9, Ordering::SeqCst);
    let refused = f.write(&who, finalize("s", turn(&store, "r1"), Some("z")));
    assert_eq!(code(refused.await), ErrorCode::TurnExpired);
    assert!(store.hot.sessions.lock().unwrap().is_empty());
    assert!(!holds(&process).await && !holds(&other).await);
    assert_eq!(process.counts().went_back, 0);
}

/// A process that holds a state from before a redaction does not show it, and adds nothing to it, when the store is set
/// back to it.
#[tokio::test]
async fn a_state_from_before_a_redaction_is_not_gone_on_with() {
    for reads in [true, false] {
        let (store, who) = (Store::plain(), anyone());
        let ((_, f), (b, g)) = (store.both(), store.both());
        f.whole(&who, "s", "r1", "needle").await;
        assert!(holds(&b).await);
        let older = store.hot.dump(store.key("s"));
        store.gate.from.store(2, Ordering::SeqCst);
        store.hot.set(store.key("s"), older);
        if reads {
            assert!(!holds(&b).await);
        } else {
            let begun = g.whole(&who, "s", "r2", "anew").await;
            assert_eq!((begun.ordinal, begun.first_seq), (1, 1));
        }
    }
}

fn turn(store: &Store<crate::ephemeral::plain::Plain>, request: &str) -> filrouge_types::TurnId {
    let request = filrouge_types::RequestId::new(request).unwrap();
    store.keyring.turn_id(&tenant(), &id("s"), &request)
}

/// A session with a row of every kind.
async fn one_of_each(f: &Fixture, who: &Scope) {
    let open = f.start(who, "s", "r1").await;
    let mut said = keyed("k", "said");
    said.agent = Some("agent".into());
    f.append(who, &open, vec![said]).await.unwrap();
    f.whole(who, "s", "r2", "b").await;
    f.record(who, event("s", "e", "kind")).await.unwrap();
    let drafted = |number, deltas| put("s", open.turn_id, stream(1), number, deltas);
    f.write(who, drafted(0, Vec::new())).await.unwrap();
    f.write(who, drafted(1, vec![delta(1, true, "text")]))
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

/// What somebody changed in the hot store, or took away there, is not answered: what is found out when a session is loaded
/// ends it, anything else fails the question that comes upon it.
#[tokio::test]
async fn what_was_changed_is_found_out() {
    let (store, who) = (Store::plain(), anyone());
    one_of_each(&store.fixture(), &who).await;
    let key = store.key("s");
    let (edition, fields) = store.hot.dump(key);
    let kinds: std::collections::BTreeSet<u8> = fields.keys().map(|name| name[0]).collect();
    assert_eq!(kinds, b"achdeirst".iter().copied().collect());
    assert!(read_all(&store.fixture(), &who).await.is_ok());
    let found_out = async |name: &[u8], ends: bool, how: &str| {
        let (process, f) = store.both();
        let expected = match ends {
            true => ErrorCode::SessionNotFound,
            false => ErrorCode::IntegrityError,
        };
        let read = read_all(&f, &who).await;
        assert_eq!(code(read), expected, "{name:?} {how}");
        assert_eq!(process.counts().damaged, u64::from(ends));
        assert_eq!(store.hot.sessions.lock().unwrap().contains_key(&key), !ends);
    };
    for name in fields.keys() {
        // What items and agents are found by is derived; whatever it leads to is verified.
        if !b"ai".contains(&name[0]) {
            let mut changed = fields.clone();
            *changed.get_mut(name).unwrap().last_mut().unwrap() ^= 1;
            store.hot.set(key, (edition, changed));
            found_out(name, b"dehst".contains(&name[0]), "changed").await;
        }
        // Of an event or a draft that is gone nothing tells, as long as the session lives here.
        if b"shtrc".contains(&name[0]) {
            let mut missing = fields.clone();
            missing.remove(name);
            store.hot.set(key, (edition, missing));
            found_out(name, b"hst".contains(&name[0]), "missing").await;
        }
    }
    // Another session's rows under this name.
    store.hot.set(store.key("other"), (edition, fields));
    let read = store.fixture().session(&who, "other").await;
    assert_eq!(code(read), ErrorCode::SessionNotFound);
}

/// One damaged field costs the session, and no write after it.
#[tokio::test]
async fn a_damaged_session_begins_anew() {
    let (store, who) = (Store::plain(), anyone());
    let (process, f) = store.both();
    let key = store.key("s");
    for (n, value) in [&b"junk"[..], b""].into_iter().enumerate() {
        f.whole(&who, "s", "r1", "a").await;
        let (mut edition, mut fields) = store.hot.dump(key);
        edition.version += 1;
        fields.insert(b"h".to_vec(), value.to_vec());
        store.hot.set(key, (edition, fields));
        let turn = f.whole(&who, "s", "r2", "b").await;
        assert_eq!((turn.ordinal, turn.first_seq), (1, 1));
        assert_eq!(process.counts().damaged, n as u64 + 1);
        process.forget(&tenant(), &id("s"), None).await.unwrap();
    }
    // What only a question comes upon keeps nobody from logging in.
    f.whole(&who, "s", "r1", "a").await;
    let (edition, mut fields) = store.hot.dump(key);
    let record = fields.iter_mut().find(|(name, _)| name[0] == b'r').unwrap();
    *record.1.last_mut().unwrap() ^= 1;
    store.hot.set(key, (edition, fields));
    let (process, f) = store.both();
    assert_eq!(
        code(f.ledger.items(&who, &sid("s"), 0, 9).await),
        ErrorCode::IntegrityError
    );
    assert_eq!(process.counts().damaged, 0);
    let keep = Default::default();
    let taken = process.take_out(&tenant(), &id("s"), &keep).await;
    assert!(taken.unwrap().is_none());
    assert_eq!(process.counts().damaged, 1);
    assert!(!holds(&process).await);
    // A store that is distrusted as a whole is no reason to forget what is whole.
    f.whole(&who, "s", "r1", "a").await;
    f.ledger.distrust("all of it".to_owned());
    let taken = process.take_out(&tenant(), &id("s"), &keep).await;
    assert_eq!(code(taken), ErrorCode::IntegrityError);
    assert!(holds(&process).await);
    assert_eq!(process.counts().damaged, 1);
}

/// A turn costs the same after a hundred others, and what is refused or repeated costs no commit.
#[tokio::test]
async fn a_write_puts_what_it_changes() {
    let (store, who) = (Store::plain(), anyone());
    let (process, f) = store.both();
    let mut sizes = Vec::new();
    for n in 100..220 {
        f.whole(&who, "s", &format!("r{n}"), "words").await;
        let change = store.hot.newest_change();
        assert_eq!(change.removes, Vec::<Vec<u8>>::new());
        let bytes: usize = change.puts.iter().map(|f| f.value.len()).sum();
        sizes.push((change.puts.len(), bytes));
    }
    assert_eq!(sizes[5].0, sizes[119].0);
    assert!(sizes[119].1 < sizes[5].1 + 16, "{sizes:?}");
    assert_eq!((process.counts().loads, store.hot.commits()), (1, 120));
    let done = turn(&store, "r101");
    let refused = f.write(&who, finalize("s", done, Some("other"))).await;
    assert_eq!(code(refused), ErrorCode::IdempotencyMismatch);
    f.whole(&who, "s", "r102", "words").await;
    f.write(&who, finalize("s", done, Some("words")))
        .await
        .unwrap();
    assert_eq!((process.counts().loads, store.hot.commits()), (1, 120));
}

/// A retry of a write whose answer was lost finds what it did.
#[tokio::test]
async fn an_answer_that_was_lost() {
    let (store, who) = (Store::plain(), anyone());
    let f = store.fixture();
    f.whole(&who, "s", "r1", "a").await;
    store.hot.fails_after.store(true, Ordering::SeqCst);
    let lost = f.try_start(&who, start(&who, "s", "r2", "r2")).await;
    assert_eq!(code(lost), ErrorCode::HotUnavailable);
    let again = f.start(&who, "s", "r2").await;
    assert_eq!((again.replayed, again.ordinal), (true, 2));
    assert_eq!(f.last_seq(&who, "s").await, 3);
}

/// What two processes hold is compared before it is used, also to refuse.
#[tokio::test]
async fn a_stale_copy_never_answers() {
    let (store, who) = (Store::plain(), anyone());
    let (a, b) = (store.fixture(), store.fixture());
    let open = a.start(&who, "s", "r").await;
    let refused = b.try_start(&who, {
        let mut start = start(&who, "s", "r2", "q");
        start.concurrent_turns = filrouge_store::command::ConcurrentTurns::Reject;
        start
    });
    assert_eq!(code(refused.await), ErrorCode::TurnOpen);
    let done = a
        .turn_of(&who, finalize("s", open.turn_id, Some("x")))
        .await;
    assert_eq!(done.unwrap().status, TurnStatus::Finalized);
    // What b holds still has the turn open.
    let again = b.start(&who, "s", "r").await;
    assert_eq!(
        (again.status, again.replayed),
        (TurnStatus::Finalized, true)
    );
    a.session_of(&who, link("s", "ann")).await.unwrap();
    assert_eq!(code(b.session(&who, "s").await), ErrorCode::SessionNotFound);
    let late = b.write(&who, finalize("s", open.turn_id, Some("x"))).await;
    assert_eq!(code(late), ErrorCode::SessionNotFound);
}

#[tokio::test]
async fn absent_sessions_and_turns() {
    let (store, who) = (Store::plain(), anyone());
    let (process, f) = store.both();
    let gone = turn(&store, "r");
    let late = f.write(&who, finalize("s", gone, Some("x"))).await;
    assert_eq!(code(late), ErrorCode::TurnExpired);
    for (who, expected) in [
        (anyone(), ErrorCode::TurnExpired),
        (user("ann"), ErrorCode::SessionNotFound),
        (operator("t"), ErrorCode::SessionNotFound),
    ] {
        let late = f.write(&who, finalize("s", gone, Some("x"))).await;
        assert_eq!(code(late), expected);
        let (sender, answer) = std::sync::mpsc::channel();
        process.inspect_absent(Box::new({
            let who = who.clone();
            move |sight| sender.send(sight.turn(&who, &sid("s"), &gone)).unwrap()
        }));
        assert_eq!(code(answer.recv().unwrap()), expected);
        assert_eq!(code(read_turn(&f, &who, gone).await), expected);
    }
    f.start(&who, "s", "other").await;
    assert_eq!(
        code(read_turn(&f, &who, gone).await),
        ErrorCode::TurnNotFound
    );
    // Erased: nothing but its name is left.
    f.write(&who, erase("s")).await.unwrap();
    assert_eq!(store.hot.dump(store.key("s")).1.len(), 2);
    let taken = store.taken("s", &Default::default()).await;
    assert_eq!(code(taken), ErrorCode::SessionErased);
}

async fn read_turn(
    f: &Fixture,
    who: &Scope,
    id: filrouge_types::TurnId,
) -> Result<filrouge_types::Turn, Failure> {
    f.ledger.turn(who, &sid("s"), id).await
}

#[tokio::test]
async fn forgetting_names_the_state() {
    let (store, who) = (Store::plain(), anyone());
    let (process, f) = store.both();
    let write = Write::Start(Arc::new(start(&who, "s", "r", "q")));
    let (outcome, edition) = process.write(&cmd(&who, write)).await.unwrap();
    assert!(matches!(outcome, Outcome::Turn(..)));
    f.whole(&who, "s", "r2", "a").await;
    let forget = |edition: Option<Edition>| {
        let process = process.clone();
        async move { process.forget(&tenant(), &id("s"), edition).await.unwrap() }
    };
    let newest = store.hot.dump(store.key("s")).0;
    assert_eq!(newest.version, edition.version + 1);
    let other = Edition {
        word: edition.word,
        ..newest
    };
    for edition in [edition, other] {
        assert!(!forget(Some(edition)).await);
        assert!(holds(&process).await);
    }
    assert!(forget(Some(newest)).await);
    assert!(!holds(&process).await);
    assert!(forget(None).await);
    let (tenant, s) = (tenant(), id("s"));
    let inspected = process.inspect(&tenant, &s, Box::new(|_| panic!("not put")));
    assert_eq!(inspected.await, Ok(false));
}

/// Nobody sweeps ephemeral sessions: who begins the next turn interrupts those that nobody works at.
#[tokio::test]
async fn silent_turns_are_interrupted_by_the_next() {
    let (store, who) = (Store::plain(), anyone());
    let f = store.both().1;
    let silent = f.start(&who, "s", "r1").await;
    let recorded = f.start(&who, "s", "r2").await;
    let own = f.start(&who, "s", "r3").await;
    store.clock.advance(15 * 60 * 1_000_000);
    let beat = put("s", recorded.turn_id, stream(1), 0, Vec::new());
    f.write(&who, beat).await.unwrap();
    store.clock.advance(1);
    // Who starts a turn again is there.
    f.start(&who, "s", "r3").await;
    let status = async |id| read_turn(&f, &who, id).await.unwrap().status;
    assert_eq!(status(silent.turn_id).await, TurnStatus::Interrupted);
    assert_eq!(status(recorded.turn_id).await, TurnStatus::Open);
    assert_eq!(status(own.turn_id).await, TurnStatus::Open);
    // A start that is refused interrupts nothing.
    store.clock.advance(20 * 60 * 1_000_000);
    let commits = store.hot.commits();
    let mut refused = start(&who, "s", "r4", "q");
    refused.batch = filrouge_store::record::Batch::default();
    let refused = f.try_start(&who, refused).await;
    assert_eq!(code(refused), ErrorCode::Invalid);
    assert_eq!(
        (store.hot.commits(), status(own.turn_id).await),
        (commits, TurnStatus::Open)
    );
}

/// Sessions that are not held are read again.
#[tokio::test]
async fn what_is_held_is_bounded() {
    let (store, who) = (Store::plain(), anyone());
    let process = std::sync::Arc::new(store.process().with_cache_bytes(0));
    let f = store.fixture_of(process.clone());
    f.whole(&who, "s0", "r1", "a").await;
    f.whole(&who, "s0", "r2", "b").await;
    let seen = differential::session_readings(&f).await;
    assert_eq!(differential::session_readings(&store.fixture()).await, seen);
    assert!(process.counts().loads > 10);
    assert_eq!(process.counts().went_back, 0);
}
