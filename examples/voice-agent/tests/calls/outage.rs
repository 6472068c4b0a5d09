//! The database becomes unreachable during calls, and returns.

use std::time::{Duration, Instant};

use filrouge_testbed::{Options, Server};

use crate::process::{Agent, FILLER, World, until};
use crate::script::{SCRIPT, check_talk, messages, talk};

/// How long the database is unreachable: `OUTAGE_SECONDS`, by default 8 s.
fn outage() -> Duration {
    let seconds = std::env::var("OUTAGE_SECONDS").ok();
    let seconds = seconds.and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(8))
}

/// A message of the caller while the calendar is unreachable, and the beginning of its answer.
const STILL_THERE: (&str, &str) = ("Oui, je suis là", "L'agenda met un peu de temps");

/// A call with its messages and answers: those of the script, and any number of [`STILL_THERE`] before its last
/// message.
struct Talk {
    call: String,
    messages: Vec<&'static str>,
    answers: Vec<&'static str>,
}

impl Talk {
    /// Begins a call with the messages of the script up to number `last`.
    fn begin(agent: &Agent, call: &str, last: usize) -> Self {
        talk(agent, call, 0..=last);
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
            self.messages.push(STILL_THERE.0);
            let answer = agent.answer(&self.call, &self.messages);
            match answer.starts_with(STILL_THERE.1) {
                true => self.answers.push(STILL_THERE.1),
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
        check_talk(agent, &self.call, &self.messages, &self.answers);
    }
}

#[test]
fn a_call_continues_while_the_database_is_unreachable_and_is_complete_afterwards() {
    let database = Server::start(Options::default());
    let world = World::new(database.url(&database.database()));
    let a = world.start("a");
    let mut call = Talk::begin(&a, "call", 1);
    let start = Instant::now();
    database.stop_immediate();
    for (message, answer) in &SCRIPT[2..4] {
        call.say(&a, message, answer);
        // A retry of the webhook gets the same answer.
        let again = a.answer("call", &call.messages);
        assert!(again.starts_with(answer), "{again}\n{}", a.log());
    }
    call.say(&a, "Oui", STILL_THERE.1);
    // The instance has not handled this call before, so it cannot know its holder.
    assert_eq!(a.answer("new", &["Bonjour"]), FILLER);
    while start.elapsed() < outage() {
        call.say(&a, STILL_THERE.0, STILL_THERE.1);
        std::thread::sleep(outage() / 5);
    }
    database.restart();
    call.end(&a);
    assert!(
        a.log().contains("[CALL_JOURNAL_WARN] pg_down"),
        "{}",
        a.log()
    );
    // Another instance then serves the call that got the filler.
    let b = world.start("b");
    talk(&b, "new", 0..=5);
}

#[test]
fn spooled_writes_survive_kills_while_they_drain() {
    let database = Server::start(Options::default());
    let name = database.database();
    let world = World::new(database.url(&name));
    let mut a = world.start("a");
    let calls = ["c0", "c1", "c2", "c3", "c4", "c5"];
    let mut calls = calls.map(|call| Talk::begin(&a, call, 0));
    database.stop_immediate();
    for call in &mut calls {
        for (message, answer) in &SCRIPT[1..4] {
            call.say(&a, message, answer);
        }
        call.say(&a, "Oui", STILL_THERE.1);
    }
    a.kill();
    database.restart();
    // Kills the instance 4 ms later each time, until the database has all turns: five of each call.
    let turns = || database.sql(&name, "SELECT count(*) FROM filrouge.turn")[0][0].clone();
    let all = Some((5 * calls.len()).to_string());
    for wait in (0..2000).step_by(4) {
        a = world.start("a");
        std::thread::sleep(Duration::from_millis(wait));
        a.kill();
        if turns() == all {
            break;
        }
    }
    let a = world.start("a");
    wait_until_drained(&a);
    for call in calls {
        call.end(&a);
    }
}

/// Waits until the spool is empty, and checks that no write was refused.
#[track_caller]
fn wait_until_drained(agent: &Agent) {
    until("the spool is drained", || {
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
