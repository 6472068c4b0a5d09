//! The ancestors, descendants and siblings of sessions, and which of them a caller sees.

use std::sync::Arc;

use filrouge_store::memory::MemoryLedger;
use filrouge_store::{Keyring, OsEntropy};
use filrouge_types::{FixedClock, SessionId, TenantId};

use super::{Lineage, RELATIVES_MAX, Relative};
use crate::caller::Caller;
use crate::{CreateSession, Engine, Settings};

fn engine() -> Engine {
    let mut settings = Settings::default();
    settings.limits.metadata_bytes = 16 << 20;
    let keyring = Arc::new(Keyring::single([7; 32]));
    let clock = Arc::new(FixedClock::at(1_700_000_000_000_000));
    let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), clock.clone());
    Engine::new(Arc::new(ledger), Arc::new(OsEntropy), clock, settings)
}

fn caller(name: &str) -> Caller {
    Caller::local(TenantId::default_tenant(), Some(name.parse().unwrap()))
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

/// Creates a session with metadata larger than a page of rows, so that each page of children contains one session.
fn create_large(engine: &Engine, caller: &Caller, id: &str, parent: Option<&str>) {
    let large = format!(r#"{{"k":"{}"}}"#, "x".repeat(9 << 20));
    let request = CreateSession {
        session_id: Some(id.parse().unwrap()),
        parent_session_id: parent.map(|p| p.parse().unwrap()),
        metadata: Some(filrouge_types::RawJson::parse(&large).unwrap()),
        ..CreateSession::default()
    };
    run(engine.sessions.create(caller, request)).unwrap();
}

fn create(engine: &Engine, caller: &Caller, id: &str, parent: Option<&str>) {
    let request = CreateSession {
        session_id: Some(id.parse().unwrap()),
        title: Some(id.to_uppercase().into()),
        parent_session_id: parent.map(|p| p.parse().unwrap()),
        ..CreateSession::default()
    };
    let created = !run(engine.sessions.create(caller, request))
        .unwrap()
        .replayed;
    assert!(created, "{id} already exists");
}

fn lineage_of(engine: &Engine, caller: &Caller, id: &str) -> Lineage {
    let id: SessionId = id.parse().unwrap();
    run(engine.stats.lineage(caller, &id)).unwrap()
}

fn ids(relatives: &[Relative]) -> Vec<&str> {
    relatives.iter().map(|r| r.session_id.as_str()).collect()
}

fn descendants(lineage: &Lineage) -> Vec<(&str, u64)> {
    let listed = lineage.descendants.iter();
    listed
        .map(|d| (d.session.session_id.as_str(), d.depth))
        .collect()
}

#[test]
fn a_tree_is_seen_from_each_of_its_sessions() {
    let (engine, ada) = (engine(), caller("ada"));
    for (id, parent) in [
        ("root", None),
        ("a", Some("root")),
        ("b", Some("root")),
        ("a1", Some("a")),
        ("b1", Some("b")),
        ("a2", Some("a")),
        ("a11", Some("a1")),
    ] {
        create(&engine, &ada, id, parent);
    }
    let root = lineage_of(&engine, &ada, "root");
    assert_eq!(ids(&root.parents), Vec::<&str>::new());
    let expected = [
        ("a", 1),
        ("b", 1),
        ("a1", 2),
        ("a2", 2),
        ("b1", 2),
        ("a11", 3),
    ];
    assert_eq!(descendants(&root), expected);
    assert_eq!(ids(&root.siblings), Vec::<&str>::new());
    let a1 = lineage_of(&engine, &ada, "a1");
    assert_eq!(ids(&a1.parents), ["a", "root"]);
    assert_eq!(descendants(&a1), [("a11", 1)]);
    assert_eq!(ids(&a1.siblings), ["a2"]);
    assert_eq!(a1.siblings[0].title.as_deref(), Some("A2"));
    assert_eq!((a1.cycle, a1.truncated, a1.gaps.len()), (false, false, 0));
}

#[test]
fn a_foreign_parent_looks_absent_and_a_foreign_child_is_not_listed() {
    let (engine, ada, bob) = (engine(), caller("ada"), caller("bob"));
    create(&engine, &bob, "of-bob", None);
    create(&engine, &ada, "child-of-bob", Some("of-bob"));
    create(&engine, &ada, "child-of-none", Some("none"));
    for (id, gap) in [("child-of-bob", "of-bob"), ("child-of-none", "none")] {
        let lineage = lineage_of(&engine, &ada, id);
        assert_eq!(lineage.gaps, [gap.parse().unwrap()]);
        assert_eq!((lineage.parents.len(), lineage.cycle), (0, false));
    }
    create(&engine, &bob, "child-of-ada", Some("child-of-none"));
    create(&engine, &bob, "grandchild-of-ada", Some("child-of-ada"));
    create(&engine, &bob, "sibling-of-ada", Some("none"));
    let lineage = lineage_of(&engine, &ada, "child-of-none");
    assert_eq!((lineage.descendants.len(), lineage.siblings.len()), (0, 0));
    assert_eq!(lineage_of(&engine, &bob, "of-bob").descendants.len(), 0);
    let operator = Caller::operator(TenantId::default_tenant());
    let for_operator = lineage_of(&engine, &operator, "child-of-none");
    assert_eq!(
        descendants(&for_operator),
        [("child-of-ada", 1), ("grandchild-of-ada", 2)]
    );
    assert_eq!(ids(&for_operator.siblings), ["sibling-of-ada"]);
}

#[test]
fn an_erased_parent_is_a_gap() {
    let (engine, ada) = (engine(), caller("ada"));
    create(&engine, &ada, "p", None);
    create(&engine, &ada, "c", Some("p"));
    run(engine.erasure.erase(&ada, "p".parse().unwrap())).unwrap();
    let lineage = lineage_of(&engine, &ada, "c");
    assert_eq!(lineage.gaps, ["p".parse().unwrap()]);
    let erased = run(engine.stats.lineage(&ada, &"p".parse().unwrap())).unwrap_err();
    assert_eq!(erased.code.as_str(), "session_erased");
}

#[test]
fn a_cycle_is_reported_and_ends_the_lists() {
    let (engine, ada) = (engine(), caller("ada"));
    create(&engine, &ada, "self", Some("self"));
    let lineage = lineage_of(&engine, &ada, "self");
    assert!(lineage.cycle && lineage.parents.is_empty() && lineage.descendants.is_empty());
    assert!(lineage.siblings.is_empty() && lineage.gaps.is_empty());
    for (id, parent) in [("x", "z"), ("y", "x"), ("z", "y"), ("tail", "z")] {
        create(&engine, &ada, id, Some(parent));
    }
    let x = lineage_of(&engine, &ada, "x");
    assert!(x.cycle);
    assert_eq!(ids(&x.parents), ["z", "y"]);
    assert_eq!(descendants(&x), [("y", 1), ("z", 2), ("tail", 3)]);
    assert_eq!(ids(&x.siblings), ["tail"]);
    // This session is not part of the cycle: its ancestors are.
    let tail = lineage_of(&engine, &ada, "tail");
    assert!(tail.cycle);
    assert_eq!(ids(&tail.parents), ["z", "y", "x"]);
    assert_eq!(tail.descendants.len(), 0);
}

#[test]
fn lists_of_more_than_a_thousand_relatives_are_truncated() {
    let (engine, ada) = (engine(), caller("ada"));
    create(&engine, &ada, "top", None);
    for n in 0..RELATIVES_MAX {
        create(&engine, &ada, &format!("wide-{n}"), Some("top"));
    }
    let top = lineage_of(&engine, &ada, "top");
    assert_eq!(
        (top.descendants.len(), top.truncated),
        (RELATIVES_MAX, false)
    );
    create(&engine, &ada, "one-more", Some("top"));
    let top = lineage_of(&engine, &ada, "top");
    assert_eq!(
        (top.descendants.len(), top.truncated),
        (RELATIVES_MAX, true)
    );
    let wide = lineage_of(&engine, &ada, "one-more");
    assert_eq!(
        (wide.siblings.len(), wide.truncated),
        (RELATIVES_MAX, false)
    );
    create(&engine, &ada, "two-more", Some("top"));
    let wide = lineage_of(&engine, &ada, "one-more");
    assert_eq!((wide.siblings.len(), wide.truncated), (RELATIVES_MAX, true));

    create(&engine, &ada, "deep-0", None);
    for n in 1..=RELATIVES_MAX + 1 {
        create(
            &engine,
            &ada,
            &format!("deep-{n}"),
            Some(&format!("deep-{}", n - 1)),
        );
    }
    let at_most = lineage_of(&engine, &ada, &format!("deep-{RELATIVES_MAX}"));
    assert_eq!(
        (at_most.parents.len(), at_most.truncated),
        (RELATIVES_MAX, false)
    );
    let deepest = lineage_of(&engine, &ada, &format!("deep-{}", RELATIVES_MAX + 1));
    assert_eq!(
        (deepest.parents.len(), deepest.truncated),
        (RELATIVES_MAX, true)
    );
    let first = lineage_of(&engine, &ada, "deep-0");
    assert_eq!(
        (first.descendants.len(), first.truncated),
        (RELATIVES_MAX, true)
    );
    assert_eq!(
        first.descendants[RELATIVES_MAX - 1].depth,
        RELATIVES_MAX as u64
    );
}

#[test]
fn relatives_with_large_metadata_are_all_found() {
    let (engine, ada) = (engine(), caller("ada"));
    create_large(&engine, &ada, "root", None);
    for id in ["a", "b", "c", "d"] {
        create_large(&engine, &ada, id, Some("root"));
    }
    create(&engine, &ada, "c1", Some("c"));
    let root = lineage_of(&engine, &ada, "root");
    let expected = [("a", 1), ("b", 1), ("c", 1), ("d", 1), ("c1", 2)];
    assert_eq!(descendants(&root), expected);
    assert!(!root.truncated && !root.cycle);
    assert_eq!(
        ids(&lineage_of(&engine, &ada, "b").siblings),
        ["a", "c", "d"]
    );
}
