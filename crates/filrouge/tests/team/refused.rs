//! Tests of refused commands and their exit codes.

use crate::world::{ANSWERING_AGENT, TeamWorld, WAITING_AGENT, until};

#[test]
fn wrong_usage_creates_nothing() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    std::fs::write(world.path("invalid.toml"), "name = \"x\"\nmember = 1\n").unwrap();
    for arguments in [
        &["team", "deploy"][..],
        &["team", "deploy", "absent.toml", "--message", "x"],
        &["team", "deploy", "invalid.toml", "--message", "x"],
        // There is neither a terminal nor a message.
        &["team", "deploy", "team.toml"],
        &["team", "deploy", "team.toml", "--message", " "],
        &["team", "deploy", "team.toml", "--resume=", "--message", "x"],
        &[
            "team",
            "deploy",
            "team.toml",
            "--resume",
            "--new",
            "--message",
            "x",
        ],
    ] {
        let done = world.run(arguments);
        assert_eq!(done.code, Some(2), "{arguments:?}: {done:?}");
    }
    assert!(!world.path(".local").exists(), "a store was created");
}

#[test]
fn an_absent_session_is_refused() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    let none = world.deploy(&["--resume", "--message", "x"]);
    assert_eq!(none.code, Some(3), "{none:?}");
    assert!(none.stderr.contains("hint: leave --resume out"), "{none:?}");
    let id = world.say("Hello.", &[]).session();
    let shorter = &id[..id.len() - 1];
    for wrong in [shorter, &format!("{id}0"), "not an id", "../x"] {
        let arguments = [&format!("--resume={wrong}"), "--message", "x"];
        let done = world.deploy(&arguments);
        assert_eq!(done.code, Some(3), "{wrong}: {done:?}");
        assert!(done.stderr.contains("session_not_found"), "{done:?}");
    }
    assert_eq!(world.sessions(), 1);
}

#[test]
fn a_session_of_another_team_is_refused() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    let id = world.say("Hello.", &[]).session();
    world.write_team("team.toml", "other", "Bob", ANSWERING_AGENT);
    let exact = format!("--resume={id}");
    let done = world.deploy(&[&exact, "--message", "x"]);
    assert_eq!(done.code, Some(4), "{done:?}");
    assert!(done.stderr.contains("crew") && done.stderr.contains("other"));
    let newest = world.deploy(&["--resume", "--message", "x"]);
    assert_eq!(newest.code, Some(3), "{newest:?}");
}

#[test]
fn a_session_that_is_open_elsewhere_is_refused() {
    let world = TeamWorld::new(WAITING_AGENT);
    std::fs::write(world.path("go"), "").unwrap();
    let id = world.say("Hello.", &[]).session();
    std::fs::remove_file(world.path("go")).unwrap();
    std::fs::remove_file(world.path("child")).unwrap();
    let exact = format!("--resume={id}");
    let arguments = ["team", "deploy", "team.toml", &exact, "--message", "Go on."];
    let mut holder = world.command(&arguments).spawn().unwrap();
    until("the agent answers", || world.path("child").exists());
    let refused = world.deploy(&[&exact, "--message", "Me too."]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    let process = format!("process {}", holder.id());
    assert!(refused.stderr.contains(&process), "{refused:?}");
    std::fs::write(world.path("go"), "").unwrap();
    assert_eq!(holder.wait().unwrap().code(), Some(0));
    let resumed = world.say("And I?", &[&exact]);
    assert_eq!(resumed.lines()[0]["message_count"], 4);
}
