//! The caller hears no difference when an instance dies.

use filrouge_testbed::Database;

use crate::process::{Agent, TERMINATED, TestSetup, chat, wait_until};
use crate::script::{SCRIPT, check_script, messages, say, send_messages};

#[test]
fn a_call_is_confirmed_by_another_instance_when_the_first_is_killed() {
    let database = Database::new();
    let setup = TestSetup::new(database.url());
    let (mut a, b) = (setup.start("a"), setup.start("b"));
    send_messages(&a, "call", 0..=4);
    assert_eq!(b.call("call").state(), "WAIT_CONFIRM");
    a.kill();
    let answer = say(&b, "call", 5);
    assert!(
        answer.contains("mercredi 25 novembre à 9 heures"),
        "{answer}"
    );
    let journal = check_script(&b, "call");
    assert_eq!(journal.events("resume_from_pg"), 1);
    assert_eq!(
        b.count_logged("[CALL_RESUME] source=pg", "call"),
        1,
        "{}",
        b.log()
    );
    assert_eq!(b.count("rebuilt"), 1);
    // A call that has ended is not reopened.
    let mut later = messages(5);
    later.push("Allô ?");
    assert_eq!(b.answer("call", &later), TERMINATED);
    assert_eq!(b.call("call").last_seq(), journal.last_seq());
}

#[test]
fn a_call_continues_after_a_kill_between_any_two_webhooks() {
    let database = Database::new();
    let setup = TestSetup::new(database.url());
    let mut b = setup.start("b");
    // In the first loop, the same instance is restarted each time. In the second, another instance continues each time.
    for index in 0..SCRIPT.len() {
        let call = format!("again-{index}");
        send_messages(&b, &call, 0..=index);
        b.kill();
        b = setup.start("b");
        send_messages(&b, &call, index + 1..=SCRIPT.len() - 1);
        check_script(&b, &call);
    }
    let mut current: Agent = setup.start("a");
    for index in 0..SCRIPT.len() {
        say(&current, "always", index);
        let mut next = setup.start(&format!("c{index}"));
        std::mem::swap(&mut current, &mut next);
        next.kill();
    }
    let journal = check_script(&current, "always");
    // A checkpoint and the items after it restored every state.
    assert_eq!(journal.events("session_reconstruct_used"), 0);
}

#[test]
fn a_webhook_killed_before_its_step_is_answered_when_repeated() {
    kill_within_webhook("step", false);
}

#[test]
fn a_webhook_killed_before_its_turn_is_answered_when_repeated() {
    kill_within_webhook("turn", false);
}

#[test]
fn a_webhook_killed_before_its_checkpoint_is_answered_when_repeated() {
    kill_within_webhook("checkpoint", true);
}

/// Kills an instance at this point of a webhook, before or after its turn was written, and repeats the webhook on
/// another instance.
#[track_caller]
fn kill_within_webhook(point: &str, was_written: bool) {
    let database = Database::new();
    let setup = TestSetup::new(database.url());
    let ttl = ("LEASE_TTL_MS", "1000");
    let b = setup.start_with("b", &[ttl]);
    let delay = format!("{point}:60000");
    // Webhooks after which a checkpoint is due.
    for index in [0, 3, 5] {
        let call = &format!("call-{index}");
        if index > 0 {
            send_messages(&b, call, 0..=index - 1);
        }
        let previous_seq = if index > 0 {
            b.call(call).last_seq()
        } else {
            0
        };
        let mut a = setup.start_with("a", &[ttl, ("HANDLE_DELAY", &delay)]);
        std::thread::scope(|scope| {
            let response =
                scope.spawn(|| a.try_post("/chat/completions", &chat(call, &messages(index))));
            wait_until("a delays the call", || {
                a.count_logged("[DELAYED]", call) == 1
            });
            a.kill_by_signal();
            assert_eq!(response.join().unwrap(), None);
        });
        a.kill();
        if index > 0 {
            assert_eq!(b.call(call).last_seq() > previous_seq, was_written);
        }
        send_messages(&b, call, index..=SCRIPT.len() - 1);
        if was_written && index == SCRIPT.len() - 1 {
            // The turn has a terminal state but no checkpoint yet: the next process writes it.
            assert_eq!(b.call(call).state(), "WAIT_CONFIRM");
            assert_eq!(
                b.answer(call, &[messages(index), vec!["Merci"]].concat()),
                TERMINATED
            );
        }
        check_script(&b, call);
    }
}
