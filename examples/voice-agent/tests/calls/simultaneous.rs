//! Several webhooks at the same time.

use filrouge_testbed::Database;

use crate::process::{FILLER, TestSetup, chat, wait_until};
use crate::script::{SCRIPT, check_script, messages, send_messages};

#[test]
fn a_webhook_whose_wait_for_another_times_out_gets_a_filler() {
    let database = Database::new();
    let setup = TestSetup::new(database.url());
    let a = setup.start_with("a", &[("HANDLE_DELAY", "turn:5000")]);
    let (b, c) = (
        setup.start("b"),
        setup.start_with("c", &[("ON_BUSY", "204")]),
    );
    send_messages(&b, "call", 0..=3);
    let locks = b.count_logged("[CALL_LOCK] acquired", "call");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| a.answer("call", &messages(4)));
        wait_until("a holds the call", || {
            a.count_logged("[CALL_LOCK] acquired", "call") == 1
        });
        let mut other_messages = messages(3);
        other_messages.push("Allô ?");
        let body = chat("call", &other_messages);
        let c = &c;
        let silent = scope.spawn(move || c.post("/chat/completions", &body));
        assert_eq!(b.answer("call", &other_messages), FILLER);
        assert_eq!(silent.join().unwrap(), (204, String::new()));
        assert!(first.join().unwrap().starts_with(SCRIPT[4].1));
    });
    assert_eq!(a.count_logged("[CALL_LOCK] acquired", "call"), 1);
    assert_eq!(b.count_logged("[CALL_LOCK] acquired", "call"), locks);
    for agent_that_waited in [&b, &c] {
        assert_eq!(
            agent_that_waited.count_logged("[CALL_LOCK_TIMEOUT]", "call"),
            1,
            "{}",
            agent_that_waited.log()
        );
    }
    assert_eq!(b.call("call").events("call_lock_timeout"), 2);
    assert_eq!(b.count("fillers"), 1);
    send_messages(&b, "call", 5..=5);
    check_script(&b, "call");
}

#[test]
fn a_repeated_webhook_records_one_turn_and_gets_one_answer() {
    let database = Database::new();
    let setup = TestSetup::new(database.url());
    let slow = [("HANDLE_DELAY", "turn:400"), ("LEASE_WAIT_MS", "20000")];
    let (a, b) = (setup.start_with("a", &slow), setup.start_with("b", &slow));
    for (index, (_, expected)) in SCRIPT.iter().enumerate() {
        let answers = std::thread::scope(|scope| {
            let webhooks = [&a, &b, &a]
                .map(|agent| scope.spawn(move || agent.answer("call", &messages(index))));
            webhooks.map(|webhook| webhook.join().unwrap())
        });
        for answer in &answers {
            assert_eq!(*answer, answers[0]);
            assert!(answer.starts_with(expected), "{answer}");
        }
        assert_eq!(b.call("call").conversation().len(), 2 * (index + 1));
    }
    // A repetition after the end of the call gets the same answer.
    assert!(b.answer("call", &messages(5)).starts_with(SCRIPT[5].1));
    check_script(&a, "call");
}

#[test]
fn two_calls_never_book_the_same_slot() {
    let database = Database::new();
    let setup = TestSetup::new(database.url());
    let (a, b) = (setup.start("a"), setup.start("b"));
    send_messages(&a, "one", 0..=4);
    send_messages(&b, "two", 0..=4);
    let (one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(|| a.answer("one", &messages(5)));
        let two = b.answer("two", &messages(5));
        (one.join().unwrap(), two)
    });
    let taken = "Ce créneau vient d'être pris. Je vous propose : 1, mardi 24 novembre à 9 heures ; 2, jeudi 26";
    let confirmed = [&one, &two]
        .iter()
        .filter(|a| a.starts_with(SCRIPT[5].1))
        .count();
    let lost = [&one, &two].iter().filter(|a| a.starts_with(taken)).count();
    assert_eq!((confirmed, lost), (1, 1), "{one}\n{two}");
    assert_eq!(a.get("/agenda").as_object().unwrap().len(), 1);
}
