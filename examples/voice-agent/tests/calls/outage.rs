//! The database becomes unreachable during calls, and returns.

use std::time::{Duration, Instant};

use filrouge_testbed::{Options, Server};

use crate::process::{Agent, TestSetup, wait_until};
use crate::script::{SCRIPT, check_conversation, messages, send_messages};

/// The duration of the outage: `OUTAGE_SECONDS`, by default 8 s.
fn outage_duration() -> Duration {
    let seconds = std::env::var("OUTAGE_SECONDS").ok();
    let seconds = seconds.and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(8))
}

/// A message of the caller while the calendar is unreachable, and the beginning of its answer.
const WAITING_EXCHANGE: (&str, &str) = ("Oui, je suis là", "L'agenda met un peu de temps");

/// A call with its messages and answers: those of the script, and any number of [`WAITING_EXCHANGE`] before its last
/// message.
struct Conversation {
    call: String,
    messages: Vec<&'static str>,
    answers: Vec<&'static str>,
}

impl Conversation {
    /// Begins a call with the messages of the script up to number `last`.
    fn begin(agent: &Agent, call: &str, last: usize) -> Self {
        send_messages(agent, call, 0..=last);
        Self {
            call: call.to_owned(),
            messages: messages(last),
            answers: SCRIPT[..=last].iter().map(|(_, answer)| *answer).collect(),
        }
    }

    #[track_caller]
    fn say(&mut self, agent: &Agent, message: &'static str, expected: &'static str) {
        self.messages.push(message);
        let answer = agent.answer(&self.call, &self.messages);
        assert!(
            answer.starts_with(expected),
            "{message}: {answer}\n{}",
            agent.log()
        );
        self.answers.push(expected);
    }

    /// Continues until slots are proposed, and accepts the second.
    fn end(mut self, agent: &Agent) {
        loop {
            self.messages.push(WAITING_EXCHANGE.0);
            let answer = agent.answer(&self.call, &self.messages);
            match answer.starts_with(WAITING_EXCHANGE.1) {
                true => self.answers.push(WAITING_EXCHANGE.1),
                false => {
                    assert!(
                        answer.starts_with("Je vous propose"),
                        "{answer}\n{}",
                        agent.log()
                    );
                    self.answers.push("Je vous propose");
                    break;
                }
            }
        }
        self.say(agent, "le 2", SCRIPT[5].1);
        wait_until_drained(agent);
        check_conversation(agent, &self.call, &self.messages, &self.answers);
    }
}

#[test]
fn a_call_continues_while_the_database_is_unreachable_and_is_complete_afterwards() {
    let database = Server::start(Options::default());
    let setup = TestSetup::new(database.url(&database.database()));
    let a = setup.start("a");
    let mut call = Conversation::begin(&a, "call", 1);
    let start = Instant::now();
    database.stop_immediate();
    for (message, answer) in &SCRIPT[2..4] {
        call.say(&a, message, answer);
        // A retry of the webhook gets the same answer.
        let repeated = a.answer("call", &call.messages);
        assert!(repeated.starts_with(answer), "{repeated}\n{}", a.log());
    }
    call.say(&a, "Oui", WAITING_EXCHANGE.1);
    let new = Conversation::begin(&a, "new", 3);
    while start.elapsed() < outage_duration() {
        call.say(&a, WAITING_EXCHANGE.0, WAITING_EXCHANGE.1);
        std::thread::sleep(outage_duration() / 5);
    }
    database.restart();
    call.end(&a);
    assert!(
        a.log().contains("[CALL_JOURNAL_WARN] pg_down"),
        "{}",
        a.log()
    );
    // Another instance continues the call that began during the outage.
    let b = setup.start("b");
    new.end(&b);
}

#[test]
fn spooled_writes_survive_kills_while_they_drain() {
    let database = Server::start(Options::default());
    let name = database.database();
    let setup = TestSetup::new(database.url(&name));
    let mut a = setup.start("a");
    let calls = ["c0", "c1", "c2", "c3", "c4", "c5"];
    let mut calls = calls.map(|call| Conversation::begin(&a, call, 0));
    database.stop_immediate();
    for call in &mut calls {
        for (message, answer) in &SCRIPT[1..4] {
            call.say(&a, message, answer);
        }
        call.say(&a, "Oui", WAITING_EXCHANGE.1);
    }
    a.kill();
    database.restart();
    // Each time, the instance runs 4 ms longer before it is killed, until the database has all turns: five of each
    // call.
    let count_turns = || database.sql(&name, "SELECT count(*) FROM filrouge.turn")[0][0].clone();
    let all_turns = Some((5 * calls.len()).to_string());
    for wait in (0..2000).step_by(4) {
        a = setup.start("a");
        std::thread::sleep(Duration::from_millis(wait));
        a.kill();
        if count_turns() == all_turns {
            break;
        }
    }
    let a = setup.start("a");
    wait_until_drained(&a);
    for call in calls {
        call.end(&a);
    }
}

/// Waits until the spool is empty, and checks that no write was refused.
#[track_caller]
fn wait_until_drained(agent: &Agent) {
    wait_until("the spool is drained", || {
        agent.get("/status")["spool"]["entries"] == 0
    });
    let status = agent.get("/status");
    assert_eq!(
        status["spool"]["dead_letters"],
        0,
        "{status}\n{}",
        agent.log()
    );
}
