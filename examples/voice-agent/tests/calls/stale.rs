//! An instance's cached calls and leases after another instance has continued the calls.

use filrouge_testbed::Database;

use crate::process::{TERMINATED, TestSetup, wait_until};
use crate::script::{SCRIPT, check_script, messages, say, send_messages};

#[test]
fn a_cached_call_older_than_the_ledger_is_not_used() {
    let database = Database::new();
    let setup = TestSetup::new(database.url());
    let (a, b) = (setup.start("a"), setup.start("b"));
    send_messages(&a, "call", 0..=1);
    assert_eq!(a.call("call").last_seq(), 4);
    send_messages(&b, "call", 2..=3);
    assert_eq!(a.call("call").last_seq(), 8);
    assert_eq!((a.count("from_cache"), a.count("rebuilt")), (1, 0));
    send_messages(&a, "call", 4..=4);
    assert_eq!((a.count("from_cache"), a.count("rebuilt")), (1, 1));
    send_messages(&a, "call", 5..=5);
    assert_eq!((a.count("from_cache"), a.count("rebuilt")), (2, 1));
    check_script(&a, "call");
}

#[test]
fn an_instance_frozen_past_its_lease_cannot_write() {
    let database = Database::new();
    let setup = TestSetup::new(database.url());
    for (point, is_other_message) in [("turn", false), ("turn", true), ("step", true)] {
        let call = format!("{point}-{is_other_message}");
        let slow = format!("{point}:2500");
        let ttl = ("LEASE_TTL_MS", "3000");
        let (a, b) = (
            setup.start_with("a", &[ttl, ("HANDLE_DELAY", &slow)]),
            setup.start_with("b", &[ttl]),
        );
        send_messages(&b, &call, 0..=4);
        let frozen_messages = match is_other_message {
            // The caller changes their mind while the first instance is frozen.
            true => [messages(4), vec!["le 1"]].concat(),
            false => messages(5),
        };
        let late_answer = std::thread::scope(|scope| {
            let late_answer = scope.spawn(|| a.answer(&call, &frozen_messages));
            // A freeze during a read would make the read time out, and the caller would hear a filler.
            wait_until("a delays the call", || {
                a.count_logged("[DELAYED]", &call) == 1
            });
            a.freeze();
            say(&b, &call, 5);
            a.wake();
            late_answer.join().unwrap()
        });
        // The same webhook gets the same answer; a different one is answered that the call has ended.
        match is_other_message {
            true => {
                assert_eq!(late_answer, TERMINATED);
                assert_eq!(a.count("leases_lost"), 1);
                assert!(a.log().contains("err=stale_fence"), "{}", a.log());
            }
            false => assert!(late_answer.starts_with(SCRIPT[5].1), "{late_answer}"),
        }
        check_script(&b, &call);
    }
}
