//! Copies from a store with another number of lanes.

use filrouge_store::Lanes;
use filrouge_store::contract::Fixture;
use filrouge_store::contract::fixture::{operator, user};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::verify::Verdict;

use super::uninterrupted::fill;
use super::*;

/// Items keep their links, so a receipt or an export of the source proves the same of the copy.
#[test]
fn a_store_of_several_lanes_is_copied_into_one_of_one_lane() {
    let pair = Pair::new();
    let clock = Arc::new(FixedClock::at(START_TIME));
    let memory = MemoryLedger::new(keyring(), Arc::new(OsEntropy), clock.clone());
    let memory = memory.with_store_id("several lanes");
    let f = Fixture {
        ledger: Arc::new(memory.with_lanes(Lanes::new(4).unwrap())),
        clock,
        keyring: keyring(),
        keep: Box::new(()),
    };
    let copied = block_on(async {
        fill(&f).await;
        run_from(&f.ledger, copy_target(&pair.target()), Progress::default()).await
    });
    let copied = copied.unwrap();
    assert_eq!(copied.source.verdict(), Verdict::Intact);
    assert!(copied.left_out.is_empty() && copied.copy.sessions == 8);
    let commits = f.ledger.position().commit_count();
    assert_eq!(copied.position.commit_count(), commits);
    let g = fixture_at(&pair.target(), keyring());
    block_on(async {
        g.assert_intact().await;
        for (scope, id) in [
            (operator("t"), "s"),
            (operator("t"), "t"),
            (operator("t"), "linked"),
            (operator("u"), "large"),
        ] {
            let items = f.items(&scope, id, 50).await;
            assert_eq!(g.items(&scope, id, 50).await, items, "{id}");
            let session = f.session(&scope, id).await.unwrap();
            assert_eq!(g.session(&scope, id).await.unwrap(), session, "{id}");
        }
        g.complete_turn(&user("ann"), "s", "next", "a").await;
        g.assert_intact().await;
        g.ledger.close().await;
    });
}
