//! Redaction and erasure reach the index in the same breath.

use filrouge_store::contract::text_index::Asking as _;
use std::sync::atomic::Ordering;

use filrouge_engine::{AppendItems, LinkSession, RedactTurn};
use filrouge_store::command::Target;
use filrouge_store::record::Seqs;
use filrouge_types::{ErrorCode, Failure, IdentityId, TurnStatus};

use super::faulty::Faulty;
use super::world::*;

fn because() -> RedactTurn {
    RedactTurn {
        reason: "asked to".into(),
    }
}

/// A session with two turns, of which the second is to go.
fn two_turns(world: &World) -> filrouge_types::Turn {
    world.make(&operator(), "s", Some("a title"));
    world.ask(&operator(), ("s", "one"), "what stays", Some("an answer"));
    let turn = world.ask(&operator(), ("s", "two"), "the secret word", Some("hush"));
    world.catch_up();
    assert!(world.holds("secret") && world.holds("stays"));
    turn
}

fn redact(world: &World, turn: &filrouge_types::Turn) -> Result<(), Failure> {
    let caller = operator();
    let redacted = world
        .engine
        .erasure
        .redact_turn(&caller, id("s"), turn.turn_id, because());
    world.runtime.block_on(redacted).map(drop)
}

#[test]
fn what_is_redacted_is_gone_when_it_is_answered_and_the_rest_comes_back() {
    let world = World::new();
    let turn = two_turns(&world);
    redact(&world, &turn).unwrap();
    assert!(!world.holds("secret"));
    let none = world.feed.catch_up(std::time::Duration::ZERO, &|| true);
    assert!(!world.runtime.block_on(none).unwrap().done);
    assert!(!world.catch_up().forgotten);
    assert!(!world.holds("secret") && world.holds("stays") && world.holds("title"));
    assert_eq!(world.feed.counts().forgotten, 0, "it was told");
    assert_eq!(
        world
            .runtime
            .block_on(world.engine.index_feed.forget_owed()),
        Ok(0)
    );
}

#[test]
fn a_redaction_that_is_refused_costs_no_recall() {
    let world = World::new();
    two_turns(&world);
    let open = world.ask(&operator(), ("s", "three"), "still open", None);
    world.catch_up();
    assert_eq!(redact(&world, &open).unwrap_err().code, ErrorCode::TurnOpen);
    assert!(!world.holds("secret"));
    // No commit tells of it.
    world.catch_up();
    for word in ["secret", "stays", "open", "title"] {
        assert!(world.holds(word), "{word}");
    }
}

#[test]
fn a_stranger_makes_nothing_be_forgotten() {
    let world = World::new();
    world.make(&user("ada"), "s", None);
    let turn = world.ask(&user("ada"), ("s", "one"), "hers alone", Some("yes"));
    world.catch_up();
    let before = world.index.seen().unwrap();
    let caller = user("bob");
    let asked = world
        .engine
        .erasure
        .redact_turn(&caller, id("s"), turn.turn_id, because());
    let refused = world.runtime.block_on(asked).unwrap_err();
    assert_eq!(refused.code, ErrorCode::SessionNotFound);
    let asked = world.engine.erasure.erase(&caller, id("s"));
    assert!(world.runtime.block_on(asked).is_err());
    let link = world
        .engine
        .sessions
        .link(&caller, id("s"), IdentityId::new("bob").unwrap());
    assert!(world.runtime.block_on(link).is_err());
    assert_eq!(world.index.seen().unwrap(), before);
    assert!(world.holds("hers alone"));
}

#[test]
fn an_index_that_does_not_answer_keeps_a_redaction_from_being_written() {
    let index = Faulty::new();
    let world = World::over(ledger(), index.clone());
    let turn = two_turns(&world);
    let commits = world.ledger.position();
    index.works.store(0, Ordering::Relaxed);
    let refused = redact(&world, &turn).unwrap_err();
    assert_eq!(refused.code, ErrorCode::StoreUnavailable);
    let erased = world
        .runtime
        .block_on(world.engine.erasure.erase(&operator(), id("s")));
    assert_eq!(erased.unwrap_err().code, ErrorCode::StoreUnavailable);
    assert_eq!(world.ledger.position(), commits, "nothing was written");
    assert!(world.holds("secret"));
    assert_eq!(
        world
            .runtime
            .block_on(world.engine.index_feed.forget_owed()),
        Ok(0)
    );
}

#[test]
fn an_index_that_fails_behind_the_write_is_told_again_by_the_feed() {
    let index = Faulty::new();
    let world = World::over(ledger(), index.clone());
    let turn = two_turns(&world);
    index.works.store(1, Ordering::Relaxed);
    let failed = redact(&world, &turn).unwrap_err();
    assert_eq!(failed.code, ErrorCode::StoreUnavailable);
    let (caller, session) = (operator(), id("s"));
    let read = world.engine.turns.get(&caller, &session, turn.turn_id);
    let read = world.runtime.block_on(read).unwrap();
    assert!(read.deleted_at.is_some(), "the redaction stands");
    let step = world.feed.catch_up(std::time::Duration::ZERO, &|| false);
    assert!(
        world.runtime.block_on(step).is_err(),
        "nothing is fed before"
    );
    let before = world.index.seen().unwrap().forgotten;
    index.works.store(-1, Ordering::Relaxed);
    world.catch_up();
    assert_eq!(world.index.seen().unwrap().forgotten, before + 1);
    assert!(!world.holds("secret") && world.holds("stays"));
}

#[test]
fn what_was_read_before_a_redaction_is_not_put_behind_it() {
    let index = Faulty::new();
    let world = World::over(ledger(), index.clone());
    let turn = two_turns(&world);
    for new in [false, true] {
        // Once the index knows the session, once it has never heard of it.
        if new {
            world.index.clear().unwrap();
        }
        let words = format!("a word that goes {new}");
        let open = world.ask(&operator(), ("s", &format!("r{new}")), &words, Some("x"));
        let (engine, handle) = (world.engine.clone(), world.runtime.handle().clone());
        let between = move || {
            let caller = operator();
            let redacted = engine
                .erasure
                .redact_turn(&caller, id("s"), open.turn_id, because());
            handle.block_on(redacted).unwrap();
        };
        *index.between.lock().unwrap() = Some(Box::new(between));
        let refused = world.feed.counts().refused;
        let step = world.feed.catch_up(std::time::Duration::ZERO, &|| false);
        world.runtime.block_on(step).unwrap();
        assert_eq!(world.feed.counts().refused, refused + 1);
        assert!(!world.holds("a word that goes"));
        world.catch_up();
        assert!(!world.holds("a word that goes") && world.holds("secret"));
    }
    redact(&world, &turn).unwrap();
    world.catch_up();
    assert!(!world.holds("secret"));
}

#[test]
fn what_a_process_without_the_index_takes_away_is_forgotten_by_the_feed() {
    let world = World::new();
    let turn = two_turns(&world);
    let (stranger, caller) = (world.stranger(), operator());
    let redacted = stranger
        .erasure
        .redact_turn(&caller, id("s"), turn.turn_id, because());
    world.runtime.block_on(redacted).unwrap();
    let forgotten = world.index.seen().unwrap().forgotten;
    world.catch_up();
    assert!(!world.holds("secret") && world.holds("stays"));
    assert_eq!(
        world.index.seen().unwrap().forgotten,
        forgotten + 1,
        "not only overwritten"
    );
    let erased = stranger.erasure.erase(&caller, id("s"));
    world.runtime.block_on(erased).unwrap();
    world.catch_up();
    assert_eq!(world.index.seen().unwrap().forgotten, forgotten + 2);
    assert_eq!(world.indexed("s"), None);
    assert_eq!(world.feed.counts().forgotten, 2);
}

#[test]
fn an_erased_session_leaves_nothing_one_by_one_or_many() {
    let world = World::new();
    for name in ["ada", "bob"] {
        world.make(&user(name), &format!("of-{name}"), Some("a title"));
        let words = format!("words of {name}");
        world.ask(
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
    assert!(!world.holds("words of ada") && world.holds("words of bob"));
    world.catch_up();
    assert!(world.indexed("of-ada").is_none() && world.indexed("of-bob").is_some());
}

#[test]
fn a_linked_session_leaves_who_saw_it_at_once_and_comes_to_its_owner() {
    let world = World::new();
    let caller = user("");
    world.make(&caller, "s", None);
    world.ask(&caller, ("s", "r"), "before the login", Some("yes"));
    world.catch_up();
    let before = world.indexed("s").unwrap().shard;
    let ada = IdentityId::new("ada").unwrap();
    let request = LinkSession { identity_id: ada };
    let link = world
        .engine
        .sessions
        .link(&caller, id("s"), request.identity_id);
    world.runtime.block_on(link).unwrap();
    assert!(!world.holds("before the login"));
    world.catch_up();
    assert!(world.holds("before the login"));
    assert_ne!(world.indexed("s").unwrap().shard, before);
}

#[test]
fn items_of_an_open_turn_are_redacted_as_well() {
    let world = World::new();
    world.make(&operator(), "s", None);
    let turn = world.ask(&operator(), ("s", "r"), "a question", None);
    world.append("s", &turn, vec![said("a slip of the tongue")]);
    world.catch_up();
    assert!(world.holds("slip"));
    let seqs = Target::Items(Seqs::of(vec![(2, 2)]).unwrap());
    let caller = operator();
    let redacted = world
        .engine
        .erasure
        .redact(&caller, id("s"), seqs, "asked to");
    world.runtime.block_on(redacted).unwrap();
    assert!(!world.holds("slip"));
    let more = world.engine.turns.append(
        &caller,
        id("s"),
        turn.turn_id,
        AppendItems::new(vec![said("and on it goes")]),
    );
    world.runtime.block_on(more).unwrap();
    world.catch_up();
    assert!(!world.holds("slip") && world.holds("goes") && world.holds("question"));
    assert_eq!(turn.status, TurnStatus::Open);
}
