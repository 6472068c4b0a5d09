//! They keep the contract of every ledger, as far as it is about one session.

use filrouge_store::contract::Fixture;

use crate::ephemeral::store::Store;

fn fixture() -> Fixture {
    Store::roomy().fixture()
}

filrouge_store::session_contract_tests!(fixture);
