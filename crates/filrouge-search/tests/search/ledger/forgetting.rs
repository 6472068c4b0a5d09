//! Redactions and erasures are applied to the index before they are answered.

use filrouge_store::contract::text_index::IndexTestExt as _;
use std::sync::atomic::Ordering;

use filrouge_engine::{AppendItems, LinkSession, RedactTurn};
use filrouge_store::command::RedactionTarget;
use filrouge_store::record::Seqs;
use filrouge_types::{ErrorCode, Failure, IdentityId, TurnStatus};

use super::failing_index::FailingIndex;
use super::world::*;

fn redaction_reason() -> RedactTurn {
    RedactTurn {
        reason: "asked to".into(),
    }
}

/// A session with two turns, of which the tests redact the second.
fn two_turns(world: &LedgerWorld) -> filrouge_types::Turn {
    world.create_session(&operator(), "s", Some("a title"));
    world.start_turn(&operator(), ("s", "one"), "what stays", Some("an answer"));
    let turn = world.start_turn(&operator(), ("s", "two"), "the secret word", Some("hush"));
    world.catch_up();
    assert!(world.index_contains("secret") && world.index_contains("stays"));
    turn
}

fn redact(world: &LedgerWorld, turn: &filrouge_types::Turn) -> Result<(), Failure> {
    let caller = operator();
    let redacted =
        world
            .engine
            .erasure
            .redact_turn(&caller, id("s"), turn.turn_id, redaction_reason());
    world.runtime.block_on(redacted).map(drop)
}

#[test]
fn redacted_text_leaves_the_index_at_once_and_the_other_text_is_indexed_again() {
    let world = LedgerWorld::new();
    let turn = two_turns(&world);
    redact(&world, &turn).unwrap();
    assert!(!world.index_contains("secret"));
    let stopped = world.feed.catch_up(std::time::Duration::ZERO, &|| true);
    assert!(!world.runtime.block_on(stopped).unwrap().done);
    assert!(!world.catch_up().forgotten);
    assert!(
        !world.index_contains("secret")
            && world.index_contains("stays")
            && world.index_contains("title")
    );
    assert_eq!(
        world.feed.counts().forgotten,
        0,
        "the feed had to forget a session that the engine should have forgotten"
    );
    assert_eq!(
        world
            .runtime
            .block_on(world.engine.index_feed.forget_pending()),
        Ok(0)
    );
}

#[test]
fn a_refused_redaction_loses_no_documents() {
    let world = LedgerWorld::new();
    two_turns(&world);
    let open = world.start_turn(&operator(), ("s", "three"), "still open", None);
    world.catch_up();
    assert_eq!(redact(&world, &open).unwrap_err().code, ErrorCode::TurnOpen);
    assert!(!world.index_contains("secret"));
    // No commit announces that the session was forgotten.
    world.catch_up();
    for word in ["secret", "stays", "open", "title"] {
        assert!(world.index_contains(word), "{word}");
    }
}

#[test]
fn calls_without_permission_forget_nothing() {
    let world = LedgerWorld::new();
    world.create_session(&user("ada"), "s", None);
    let turn = world.start_turn(&user("ada"), ("s", "one"), "hers alone", Some("yes"));
    world.catch_up();
    let before = world.index.version().unwrap();
    let caller = user("bob");
    let request =
        world
            .engine
            .erasure
            .redact_turn(&caller, id("s"), turn.turn_id, redaction_reason());
    let refused = world.runtime.block_on(request).unwrap_err();
    assert_eq!(refused.code, ErrorCode::SessionNotFound);
    let erased = world.engine.erasure.erase(&caller, id("s"));
    assert!(world.runtime.block_on(erased).is_err());
    let link = world
        .engine
        .sessions
        .link(&caller, id("s"), IdentityId::new("bob").unwrap());
    assert!(world.runtime.block_on(link).is_err());
    assert_eq!(world.index.version().unwrap(), before);
    assert!(world.index_contains("hers alone"));
}

#[test]
fn a_redaction_is_refused_and_not_written_while_the_index_does_not_answer() {
    let index = FailingIndex::new();
    let world = LedgerWorld::from_parts(ledger(), index.clone());
    let turn = two_turns(&world);
    let commits = world.ledger.position();
    index.forgets_left.store(0, Ordering::Relaxed);
    let refused = redact(&world, &turn).unwrap_err();
    assert_eq!(refused.code, ErrorCode::StoreUnavailable);
    let erased = world
        .runtime
        .block_on(world.engine.erasure.erase(&operator(), id("s")));
    assert_eq!(erased.unwrap_err().code, ErrorCode::StoreUnavailable);
    assert_eq!(
        world.ledger.position(),
        commits,
        "a refused redaction or erasure was written"
    );
    assert!(world.index_contains("secret"));
    assert_eq!(
        world
            .runtime
            .block_on(world.engine.index_feed.forget_pending()),
        Ok(0)
    );
}

#[test]
fn the_feed_forgets_what_the_index_failed_to_forget_after_the_write() {
    let index = FailingIndex::new();
    let world = LedgerWorld::from_parts(ledger(), index.clone());
    let turn = two_turns(&world);
    index.forgets_left.store(1, Ordering::Relaxed);
    let failed = redact(&world, &turn).unwrap_err();
    assert_eq!(failed.code, ErrorCode::StoreUnavailable);
    let (caller, session) = (operator(), id("s"));
    let read = world.engine.turns.get(&caller, &session, turn.turn_id);
    let read = world.runtime.block_on(read).unwrap();
    assert!(read.deleted_at.is_some(), "the redaction was not recorded");
    let step = world.feed.catch_up(std::time::Duration::ZERO, &|| false);
    assert!(
        world.runtime.block_on(step).is_err(),
        "the feed continued although the index had not forgotten the session"
    );
    let before = world.index.version().unwrap().forgotten;
    index.forgets_left.store(-1, Ordering::Relaxed);
    world.catch_up();
    assert_eq!(world.index.version().unwrap().forgotten, before + 1);
    assert!(!world.index_contains("secret") && world.index_contains("stays"));
}

#[test]
fn text_that_the_feed_read_before_a_redaction_is_not_indexed_after_it() {
    let index = FailingIndex::new();
    let world = LedgerWorld::from_parts(ledger(), index.clone());
    let turn = two_turns(&world);
    for is_new in [false, true] {
        // The second time, the index is empty, so the session is new to it.
        if is_new {
            world.index.clear().unwrap();
        }
        let words = format!("a word that goes {is_new}");
        let open = world.start_turn(&operator(), ("s", &format!("r{is_new}")), &words, Some("x"));
        let (engine, handle) = (world.engine.clone(), world.runtime.handle().clone());
        let redact_open_turn = move || {
            let caller = operator();
            let redacted =
                engine
                    .erasure
                    .redact_turn(&caller, id("s"), open.turn_id, redaction_reason());
            handle.block_on(redacted).unwrap();
        };
        *index.before_change.lock().unwrap() = Some(Box::new(redact_open_turn));
        let refused = world.feed.counts().refused;
        let step = world.feed.catch_up(std::time::Duration::ZERO, &|| false);
        world.runtime.block_on(step).unwrap();
        assert_eq!(world.feed.counts().refused, refused + 1);
        assert!(!world.index_contains("a word that goes"));
        world.catch_up();
        assert!(!world.index_contains("a word that goes") && world.index_contains("secret"));
    }
    redact(&world, &turn).unwrap();
    world.catch_up();
    assert!(!world.index_contains("secret"));
}

#[test]
fn redactions_by_a_process_without_the_index_reach_it_by_the_feed() {
    let world = LedgerWorld::new();
    let turn = two_turns(&world);
    let (other_engine, caller) = (world.engine_without_index(), operator());
    let redacted =
        other_engine
            .erasure
            .redact_turn(&caller, id("s"), turn.turn_id, redaction_reason());
    world.runtime.block_on(redacted).unwrap();
    let forgotten = world.index.version().unwrap().forgotten;
    world.catch_up();
    assert!(!world.index_contains("secret") && world.index_contains("stays"));
    assert_eq!(
        world.index.version().unwrap().forgotten,
        forgotten + 1,
        "the feed overwrote the session and did not forget it"
    );
    let erased = other_engine.erasure.erase(&caller, id("s"));
    world.runtime.block_on(erased).unwrap();
    world.catch_up();
    assert_eq!(world.index.version().unwrap().forgotten, forgotten + 2);
    assert_eq!(world.indexed_session("s"), None);
    assert_eq!(world.feed.counts().forgotten, 2);
}

#[test]
fn erasing_all_sessions_of_an_owner_removes_their_documents() {
    let world = LedgerWorld::new();
    for name in ["ada", "bob"] {
        world.create_session(&user(name), &format!("of-{name}"), Some("a title"));
        let words = format!("words of {name}");
        world.start_turn(
            &user(name),
            (&format!("of-{name}"), "r"),
            &words,
            Some("yes"),
        );
    }
    world.catch_up();
    let caller = operator();
    let ada = Some(IdentityId::new("ada").unwrap());
    let erased = world.engine.erasure.erase_all(&caller, ada, |_| Ok(()));
    assert_eq!(world.runtime.block_on(erased), Ok(1));
    assert!(!world.index_contains("words of ada") && world.index_contains("words of bob"));
    world.catch_up();
    assert!(world.indexed_session("of-ada").is_none() && world.indexed_session("of-bob").is_some());
}

#[test]
fn a_linked_session_leaves_its_shard_at_once_and_is_indexed_in_its_owners() {
    let world = LedgerWorld::new();
    let caller = user("");
    world.create_session(&caller, "s", None);
    world.start_turn(&caller, ("s", "r"), "before the login", Some("yes"));
    world.catch_up();
    let before = world.indexed_session("s").unwrap().shard;
    let ada = IdentityId::new("ada").unwrap();
    let request = LinkSession { identity_id: ada };
    let link = world
        .engine
        .sessions
        .link(&caller, id("s"), request.identity_id);
    world.runtime.block_on(link).unwrap();
    assert!(!world.index_contains("before the login"));
    world.catch_up();
    assert!(world.index_contains("before the login"));
    assert_ne!(world.indexed_session("s").unwrap().shard, before);
}

#[test]
fn items_of_an_open_turn_are_redacted_as_well() {
    let world = LedgerWorld::new();
    world.create_session(&operator(), "s", None);
    let turn = world.start_turn(&operator(), ("s", "r"), "a question", None);
    world.append("s", &turn, vec![observation("a slip of the tongue")]);
    world.catch_up();
    assert!(world.index_contains("slip"));
    let seqs = RedactionTarget::Items(Seqs::from_ranges(vec![(2, 2)]).unwrap());
    let caller = operator();
    let redacted = world
        .engine
        .erasure
        .redact(&caller, id("s"), seqs, "asked to");
    world.runtime.block_on(redacted).unwrap();
    assert!(!world.index_contains("slip"));
    let more = world.engine.turns.append(
        &caller,
        id("s"),
        turn.turn_id,
        AppendItems::new(vec![observation("and on it goes")]),
    );
    world.runtime.block_on(more).unwrap();
    world.catch_up();
    assert!(
        !world.index_contains("slip")
            && world.index_contains("goes")
            && world.index_contains("question")
    );
    assert_eq!(turn.status, TurnStatus::Open);
}
