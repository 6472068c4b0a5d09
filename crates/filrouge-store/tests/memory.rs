//! The ledger in memory passes the contract, and the contract runs all that it holds.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests"
)]

use std::path::Path;
use std::sync::Arc;

use filrouge_store::Keyring;
use filrouge_store::contract::{Fixture, differential};

fn fixture() -> Fixture {
    differential::memory(Arc::new(Keyring::single([7; 32])))
}

filrouge_store::contract_tests!(fixture);

#[test]
fn every_test_of_the_contract_is_listed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/contract");
    let list = std::fs::read_to_string(folder.join("mod.rs")).unwrap();
    let list: Vec<&str> = list
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .collect();
    let mut found = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if ["mod.rs", "fixture.rs", "differential.rs"].contains(&name) {
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
