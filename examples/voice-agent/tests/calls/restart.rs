//! Instances die without the caller noticing.

use filrouge_testbed::Database;

use crate::process::{Agent, TERMINATED, World, chat, until};
use crate::script::{SCRIPT, check_script, messages, say, talk};

#[test]
fn a_call_is_confirmed_by_another_instance_when_the_first_is_killed() {
    let database = Database::new();
    let world = World::new(database.url());
    let (mut a, b) = (world.start("a"), world.start("b"));
    talk(&a, "call", 0..=4);
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
        b.logged("[CALL_RESUME] source=pg", "call"),
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
    let world = World::new(database.url());
    let mut b = world.start("b");
    // First the same instance is restarted each time; then another instance continues each time.
    for at in 0..SCRIPT.len() {
        let call = format!("again-{at}");
        talk(&b, &call, 0..=at);
        b.kill();
        b = world.start("b");
        talk(&b, &call, at + 1..=SCRIPT.len() - 1);
        check_script(&b, &call);
    }
    let mut current: Agent = world.start("a");
    for at in 0..SCRIPT.len() {
        say(&current, "always", at);
        let mut next = world.start(&format!("c{at}"));
        std::mem::swap(&mut current, &mut next);
        next.kill();
    }
    let journal = check_script(&current, "always");
    // Every state was in a checkpoint, or in the items after one.
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
    let world = World::new(database.url());
    let ttl = ("LEASE_TTL_MS", "1000");
    let b = world.start_with("b", &[ttl]);
    let delay = format!("{point}:60000");
    // Webhooks after which a checkpoint is due.
    for at in [0, 3, 5] {
        let call = &format!("call-{at}");
        if at > 0 {
            talk(&b, call, 0..=at - 1);
        }
        let before = if at > 0 { b.call(call).last_seq() } else { 0 };
        let mut a = world.start_with("a", &[ttl, ("HANDLE_DELAY", &delay)]);
        std::thread::scope(|scope| {
            let lost = scope.spawn(|| a.try_post("/chat/completions", &chat(call, &messages(at))));
            until("a delays the call", || a.logged("[DELAYED]", call) == 1);
            a.kill_shared();
            assert_eq!(lost.join().unwrap(), None);
        });
        a.kill();
        if at > 0 {
            assert_eq!(b.call(call).last_seq() > before, was_written);
        }
        talk(&b, call, at..=SCRIPT.len() - 1);
        if was_written && at == SCRIPT.len() - 1 {
            // The turn has a terminal state but no checkpoint yet: the next process writes it.
            assert_eq!(b.call(call).state(), "WAIT_CONFIRM");
            assert_eq!(
                b.answer(call, &[messages(at), vec!["Merci"]].concat()),
                TERMINATED
            );
        }
        check_script(&b, call);
    }
}
