//! Fourth validation: the database becomes unreachable during calls, and returns.

use std::time::{Duration, Instant};

use filrouge_testbed::{Options, Server};

use crate::process::{Agent, FILLER, World, until};
use crate::script::{SCRIPT, check_talk, said, talk};

/// How long the database is unreachable: `OUTAGE_SECONDS`, by default 8 s.
fn outage() -> Duration {
    let seconds = std::env::var("OUTAGE_SECONDS").ok();
    let seconds = seconds.and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(8))
}

/// A message of the caller while the agenda is unreachable, and the beginning of its answer.
const STILL_THERE: (&str, &str) = ("Oui, je suis là", "L'agenda met un peu de temps");

/// The messages of a call and their answers: those of the script, and any number of [`STILL_THERE`] before its last message.
struct Talk {
    call: String,
    said: Vec<&'static str>,
    answers: Vec<&'static str>,
}

impl Talk {
    fn begun(agent: &Agent, call: &str, last: usize) -> Self {
        talk(agent, call, 0..=last);
        Self {
            call: call.to_owned(),
            said: said(last),
            answers: SCRIPT[..=last].iter().map(|(_, answer)| *answer).collect(),
        }
    }

    #[track_caller]
    fn say(&mut self, agent: &Agent, said: &'static str, answer: &'static str) {
        self.said.push(said);
        let reported = agent.hears(&self.call, &self.said);
        assert!(
            reported.starts_with(answer),
            "{said}: {reported}\n{}",
            agent.log()
        );
        self.answers.push(answer);
    }

    /// Continues until slots are proposed, and accepts the second.
    fn end(mut self, agent: &Agent) {
        loop {
            self.said.push(STILL_THERE.0);
            let reported = agent.hears(&self.call, &self.said);
            match reported.starts_with(STILL_THERE.1) {
                true => self.answers.push(STILL_THERE.1),
                false => {
                    assert!(
                        reported.starts_with("Je vous propose"),
                        "{reported}\n{}",
                        agent.log()
                    );
                    self.answers.push("Je vous propose");
                    break;
                }
            }
        }
        self.say(agent, "le 2", SCRIPT[5].1);
        drained(agent);
        check_talk(agent, &self.call, &self.said, &self.answers);
    }
}

#[test]
fn a_call_continues_while_the_database_is_unreachable_and_is_complete_afterwards() {
    let database = Server::start(Options::default());
    let world = World::new(database.url(&database.database()));
    let a = world.start("a");
    let mut call = Talk::begun(&a, "call", 1);
    let began = Instant::now();
    database.stop_immediate();
    for (said, answer) in &SCRIPT[2..4] {
        call.say(&a, said, answer);
        // A retry of the webhook gets the same answer.
        let again = a.hears("call", &call.said);
        assert!(again.starts_with(answer), "{again}\n{}", a.log());
    }
    call.say(&a, "Oui", STILL_THERE.1);
    // This instance has not seen the call, so it cannot know its holder.
    assert_eq!(a.hears("new", &["Bonjour"]), FILLER);
    while began.elapsed() < outage() {
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
    let mut calls = calls.map(|call| Talk::begun(&a, call, 0));
    database.stop_immediate();
    for call in &mut calls {
        for (said, answer) in &SCRIPT[1..4] {
            call.say(&a, said, answer);
        }
        call.say(&a, "Oui", STILL_THERE.1);
    }
    a.kill();
    database.restart();
    // Kill 4 ms later each time, until the database has all turns: five of each call.
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
    drained(&a);
    for call in calls {
        call.end(&a);
    }
}

/// Waits until the spool is empty, and checks that no write was refused.
#[track_caller]
fn drained(agent: &Agent) {
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
