//! The ledger in memory passes the contract suite, and the suite lists all its tests.

use std::path::Path;
use std::sync::Arc;

use filrouge_store::contract::fixture::{operator, user};
use filrouge_store::contract::{Fixture, differential, run};
use filrouge_store::read::ChangeCursor;
use filrouge_store::{Keyring, Lanes};

fn keyring() -> Arc<Keyring> {
    Arc::new(Keyring::single([7; 32]))
}

fn fixture() -> Fixture {
    differential::memory(keyring())
}

filrouge_store::contract_tests!(fixture);

fn of_three_lanes() -> Fixture {
    differential::memory_with_lanes(keyring(), Lanes::new(3).unwrap())
}

mod three_lanes {
    use super::of_three_lanes;
    filrouge_store::contract_tests!(of_three_lanes);
}

#[test]
fn the_number_of_lanes_changes_no_answer() {
    differential::same_with_several_lanes(48);
}

#[test]
fn every_test_of_the_suite_is_listed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/contract");
    let list = std::fs::read_to_string(folder.join("mod.rs")).unwrap();
    let list: Vec<&str> = list
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .collect();
    let mut found = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if [
            "mod.rs",
            "session_writes.rs",
            "live_writes.rs",
            "fixture.rs",
            "differential.rs",
            "fair_reads.rs",
            "removed_drafts.rs",
        ]
        .contains(&name)
            || path.is_dir()
        {
            continue;
        }
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            if let Some(test) = line.strip_prefix("pub async fn ") {
                let test = test.split('(').next().unwrap();
                assert!(
                    list.contains(&test),
                    "{name}: {test} is not in contract_tests!"
                );
                found += 1;
            }
        }
    }
    assert!(found > 50);
}

/// A page of the change feed examines a limited number of commits, even for a reader who sees none of them.
#[test]
fn a_page_of_the_feed_is_bounded() {
    for fixture in [fixture(), of_three_lanes()] {
        run(fixture, async |f: &Fixture| {
            let eve = user("eve");
            for n in 0..9000 {
                f.ledger.put_note("n", n, Vec::new()).await.unwrap();
            }
            f.clock.advance(1);
            f.create(&eve, "e").await.unwrap();
            for who in [&eve, &operator("t")] {
                let first = f.ledger.changes(who, ChangeCursor::default(), 5);
                let first = first.await.unwrap();
                assert_eq!((first.data.len(), first.more), (0, true));
                assert!((1..9000).contains(&first.next.commit_count()));
                let second = f.ledger.changes(who, first.next, 5).await.unwrap();
                assert_eq!((second.data.len(), second.more), (1, false));
                assert_eq!(f.feed(who, 1).await.len(), 1);
            }
        });
    }
}

fn index() -> filrouge_store::contract::text_index::IndexFixture {
    filrouge_store::contract::text_index::memory()
}

mod index_contract {
    use super::index;
    filrouge_store::index_contract_tests!(index);
}
