//! An instance's cached calls and leases after another instance has continued the calls.

use filrouge_testbed::Database;

use crate::process::{TERMINATED, World, until};
use crate::script::{SCRIPT, check_script, messages, say, talk};

#[test]
fn a_cached_call_older_than_the_ledger_is_not_used() {
    let database = Database::new();
    let world = World::new(database.url());
    let (a, b) = (world.start("a"), world.start("b"));
    talk(&a, "call", 0..=1);
    assert_eq!(a.call("call").last_seq(), 4);
    talk(&b, "call", 2..=3);
    assert_eq!(a.call("call").last_seq(), 8);
    assert_eq!((a.count("from_cache"), a.count("rebuilt")), (1, 0));
    talk(&a, "call", 4..=4);
    assert_eq!((a.count("from_cache"), a.count("rebuilt")), (1, 1));
    talk(&a, "call", 5..=5);
    assert_eq!((a.count("from_cache"), a.count("rebuilt")), (2, 1));
    check_script(&a, "call");
}

#[test]
fn an_instance_frozen_past_its_lease_cannot_write() {
    let database = Database::new();
    let world = World::new(database.url());
    for (point, is_other) in [("turn", false), ("turn", true), ("step", true)] {
        let call = format!("{point}-{is_other}");
        let slow = format!("{point}:2500");
        let ttl = ("LEASE_TTL_MS", "3000");
        let (a, b) = (
            world.start_with("a", &[ttl, ("HANDLE_DELAY", &slow)]),
            world.start_with("b", &[ttl]),
        );
        talk(&b, &call, 0..=4);
        let frozen = match is_other {
            // The caller changes their mind while the first instance is frozen.
            true => [messages(4), vec!["le 1"]].concat(),
            false => messages(5),
        };
        let late = std::thread::scope(|scope| {
            let late = scope.spawn(|| a.answer(&call, &frozen));
            // Not during a read: it would time out during the freeze, and the caller would hear a filler.
            until("a delays the call", || a.logged("[DELAYED]", &call) == 1);
            a.freeze();
            say(&b, &call, 5);
            a.wake();
            late.join().unwrap()
        });
        // The same webhook gets the same answer; a different one finds that the call has ended.
        match is_other {
            true => {
                assert_eq!(late, TERMINATED);
                assert_eq!(a.count("leases_lost"), 1);
                assert!(a.log().contains("err=stale_fence"), "{}", a.log());
            }
            false => assert!(late.starts_with(SCRIPT[5].1), "{late}"),
        }
        check_script(&b, &call);
    }
}
