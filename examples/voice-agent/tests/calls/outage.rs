//! Fourth validation: the database goes away in the middle of calls, and comes back.

use std::time::{Duration, Instant};

use filrouge_testbed::{Options, Server};

use crate::process::{Agent, FILLER, World, until};
use crate::script::{SCRIPT, check_talk, said, talk};

/// How long the database is away: `OUTAGE_SECONDS`, 8 s else.
fn outage() -> Duration {
    let seconds = std::env::var("OUTAGE_SECONDS").ok();
    let seconds = seconds.and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(8))
}

/// What a caller says, and is answered, while the agenda cannot be asked.
const STILL_THERE: (&str, &str) = ("Oui, je suis là", "L'agenda met un peu de temps");

/// What was said in a call, with what is said while the agenda is away behind number 4.
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
        let told = agent.hears(&self.call, &self.said);
        assert!(told.starts_with(answer), "{said}: {told}\n{}", agent.log());
        self.answers.push(answer);
    }

    /// Goes on until slots are proposed, and takes the second.
    fn end(mut self, agent: &Agent) {
        loop {
            self.said.push(STILL_THERE.0);
            let told = agent.hears(&self.call, &self.said);
            match told.starts_with(STILL_THERE.1) {
                true => self.answers.push(STILL_THERE.1),
                false => {
                    assert!(
                        told.starts_with("Je vous propose"),
                        "{told}\n{}",
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
fn a_call_goes_on_while_the_database_is_away_and_is_whole_afterwards() {
    let database = Server::start(Options::default());
    let world = World::new(database.url(&database.database()));
    let a = world.start("a");
    let mut call = Talk::begun(&a, "call", 1);
    let began = Instant::now();
    database.stop_immediate();
    for (said, answer) in &SCRIPT[2..4] {
        call.say(&a, said, answer);
        // The same webhook again has the same answer.
        let again = a.hears("call", &call.said);
        assert!(again.starts_with(answer), "{again}\n{}", a.log());
    }
    call.say(&a, "Oui", STILL_THERE.1);
    // Of a call that this instance has not seen nobody knows who has it.
    assert_eq!(a.hears("new", &["Bonjour"]), FILLER);
    while began.elapsed() < outage() {
        call.say(&a, STILL_THERE.0, STILL_THERE.1);
        std::thread::sleep(outage() / 5);
    }
    database.start_again();
    call.end(&a);
    assert!(
        a.log().contains("[CALL_JOURNAL_WARN] pg_down"),
        "{}",
        a.log()
    );
    // Another instance goes on as if nothing had been.
    let b = world.start("b");
    talk(&b, "new", 0..=5);
}

#[test]
fn what_waits_survives_kills_while_it_drains() {
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
    database.start_again();
    // Each time a little later, until all of it is in the database: five turns of each call.
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

/// Waits until nothing is in the spool, and nothing was refused.
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
