//! Tests without a terminal: one message and its answers.

use std::io::{BufRead, BufReader};

use serde_json::Value;

use crate::world::{
    ANSWERING_AGENT, TeamOutput, TeamWorld, WAITING_AGENT, is_alive, signal, to_output, until,
};

/// Returns the JSON lines of this event.
fn events<'a>(lines: &'a [Value], name: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == name).collect()
}

#[test]
fn a_message_and_its_answer_are_recorded() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    let done = world.deploy(&["--message", "We build of oak."]);
    assert_eq!((done.code, &*done.stderr), (Some(0), ""), "{done:?}");
    assert_eq!(done.stdout, "Bob:\nI hear you.\n\n");
    let prompt = world.read("prompt");
    assert!(prompt.contains("We build of oak.") && prompt.contains("Build the bridge."));
    let files = world.snapshot_files("crew");
    assert_eq!(files.len(), 1);
    let written: Value = serde_json::from_slice(&std::fs::read(&files[0]).unwrap()).unwrap();
    assert_eq!(written["context"]["messages"].as_array().unwrap().len(), 2);
    assert_eq!(world.json(&["verify"])["status"], "intact");
}

#[test]
fn a_message_is_read_from_stdin() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    let done = world.pipe("one line\nand another\n", &[]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(world.read("prompt").contains("one line\nand another"));
}

#[test]
fn a_session_is_resumed_only_on_request() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    let first = world.say("We build of oak.", &[]);
    assert_eq!(first.stderr, "");
    let (id, lines) = (first.session(), first.lines());
    assert_eq!(lines[0]["resumed"], false);
    let ended = events(&lines, "ended");
    assert_eq!(ended[0]["message"]["content"], "I hear you.");
    assert_eq!(ended[0]["message"]["parent"], "msg-1");
    assert_eq!(lines.last().unwrap()["event"], "closed");

    let second = world.say("Something else.", &[]);
    assert_ne!(second.session(), id);
    assert!(
        second
            .stderr
            .starts_with("note: earlier sessions of this team: 1, the newest ")
            && second.stderr.contains("2 messages"),
        "{second:?}"
    );
    assert!(!world.read("prompt").contains("oak"));

    let newest = world.say("And now?", &["--resume"]);
    assert_eq!(newest.session(), second.session());
    assert_eq!(newest.stderr, "");

    let newest_again = world.run(&[
        "team",
        "deploy",
        "--resume",
        "team.toml",
        "--message",
        "Now?",
    ]);
    assert_eq!(newest_again.code, Some(0), "{newest_again:?}");
    assert!(world.read("prompt").contains("And now?"));

    let again = world.say("Which wood?", &["--resume", &id]);
    let head = &again.lines()[0];
    assert_eq!(
        (&head["session_id"], &head["resumed"]),
        (&Value::from(id), &Value::from(true))
    );
    assert_eq!(head["message_count"], 2);
    let prompt = world.read("prompt");
    for words in [
        "We build of oak.",
        "I hear you.",
        "Build the bridge.",
        "Which wood?",
    ] {
        assert!(prompt.contains(words), "{words}: {prompt}");
    }
    let lines = again.lines();
    assert_eq!(events(&lines, "said")[0]["message"]["id"], "msg-3");
}

#[test]
fn a_renamed_member_is_reported() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    let first = world.say("Hello.", &[]);
    world.write_team("team.toml", "crew", "Robert", ANSWERING_AGENT);
    let done = world.deploy(&["--resume", "--message", "Who are you?"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(
        done.stderr,
        "No longer in the team: Bob. What they said stays.\n"
    );
    assert!(world.read("prompt").contains("Bob"));
    let json = world.say("And?", &["--resume"]);
    assert_eq!(json.session(), first.session());
    let lines = json.lines();
    assert_eq!(events(&lines, "drift")[0]["speakers"][0]["name"], "Bob");
}

#[test]
fn a_failed_agent_is_reported_and_its_text_is_kept() {
    let world = TeamWorld::new("cat > prompt; echo 'So far.'; echo 'no more wood' >&2; exit 3");
    let failed = world.deploy(&["--message", "Build!"]);
    assert_eq!(failed.code, Some(6), "{failed:?}");
    assert!(failed.stdout.contains("So far."), "{failed:?}");
    assert!(failed.stderr.contains("no more wood"), "{failed:?}");
    world.write_team("team.toml", "crew", "Bob", ANSWERING_AGENT);
    world.say("Again.", &["--resume"]);
    assert!(world.read("prompt").contains("So far."));
}

#[test]
fn a_terminated_conversation_keeps_its_messages() {
    for (name, code) in [("TERM", 143), ("HUP", 129), ("INT", 130)] {
        let world = TeamWorld::new(WAITING_AGENT);
        let output = run_until_signaled(&world, name);
        assert_eq!(output.code, Some(code), "{name}: {output:?}");
        until("the agent's child ends", || !is_alive(&world.read("child")));
        world.write_team("team.toml", "crew", "Bob", ANSWERING_AGENT);
        let next = world.say("Go on.", &["--resume"]);
        assert_eq!(next.lines()[0]["message_count"], 2, "{name}");
        assert!(world.read("prompt").contains("half of it"), "{name}");
    }
}

/// Runs a conversation until half of an answer is printed, and then sends a signal.
fn run_until_signaled(world: &TeamWorld, name: &str) -> TeamOutput {
    let mut command = world.command(&["team", "deploy", "team.toml", "--json", "--message", "Go."]);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let half = lines.any(|line| line.unwrap().contains("half of it"));
    assert!(half, "the first half of the answer was not printed");
    signal(name, child.id());
    lines.for_each(drop);
    to_output(child.wait_with_output().unwrap())
}

#[test]
fn texts_follow_the_locale() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    world.say("Bonjour.", &[]);
    let stderr_in = |locale: &str| {
        let arguments = ["team", "deploy", "team.toml", "--message", "Encore."];
        let mut command = world.command(&arguments);
        to_output(command.env("LC_ALL", locale).output().unwrap()).stderr
    };
    assert!(stderr_in("fr_FR.UTF-8").contains("sessions antérieures"));
    assert!(stderr_in("zh_CN.UTF-8").contains("个历史会话"));
    assert!(stderr_in("de_DE.UTF-8").contains("earlier sessions"));
}
