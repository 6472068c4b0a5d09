//! Conversations at a terminal.

use crate::terminal::{CTRL_C, CTRL_D, PROMPT, TeamTerminal};
use crate::world::{ANSWERING_AGENT, TeamWorld, WAITING_AGENT, is_alive, signal, until};

#[test]
fn a_conversation_is_left_and_resumed() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    let mut terminal = TeamTerminal::deploy(&world, &[]);
    terminal.expect("Team crew: Ann, Bob.");
    terminal.expect(PROMPT);
    let answer = terminal.say("We build of oak.");
    assert!(answer.contains("Bob:\r\nI hear you.\r\n"), "{answer:?}");
    terminal.press(CTRL_D);
    let (code, shown) = terminal.ended();
    assert_eq!(code, Some(0));
    assert!(shown.contains("Kept: session "), "{shown:?}");

    let mut terminal = TeamTerminal::deploy(&world, &[]);
    terminal.expect("Found an earlier session (");
    terminal.expect(", 2 messages).  [R] Resume  [N] Start new");
    std::fs::remove_file(world.path("prompt")).unwrap();
    terminal.press("R");
    let recalled = terminal.expect(PROMPT);
    for words in [
        "2 messages",
        "We build of oak.",
        "I hear you.",
        "Task: Build the bridge.",
    ] {
        assert!(recalled.contains(words), "{words}: {recalled:?}");
    }
    terminal.say("And the roof?");
    let prompt = world.read("prompt");
    for words in [
        "We build of oak.",
        "I hear you.",
        "Build the bridge.",
        "And the roof?",
    ] {
        assert!(prompt.contains(words), "{words}: {prompt}");
    }
    // The history of lines contains messages of earlier runs.
    terminal.press("\u{1b}[A\u{1b}[A");
    terminal.expect("We build of oak.");
    terminal.press(" Again.\r");
    terminal.expect("I hear you.");
    terminal.expect(PROMPT);
    assert!(world.read("prompt").contains("We build of oak. Again."));
    terminal.press(CTRL_D);
    assert_eq!(terminal.ended().0, Some(0));
    assert_eq!(world.sessions(), 1);
}

#[test]
fn ctrl_c_stops_the_speaker_and_twice_leaves() {
    let world = TeamWorld::new(WAITING_AGENT);
    let mut terminal = TeamTerminal::deploy(&world, &[]);
    terminal.expect(PROMPT);
    terminal.line("Build!");
    terminal.expect("half of it");
    terminal.press(CTRL_C);
    terminal.expect("[cancelled]");
    terminal.expect(PROMPT);
    until("the agent's child ends", || !is_alive(&world.read("child")));
    terminal.press(CTRL_C);
    terminal.expect("Ctrl-C again");
    terminal.expect(PROMPT);
    terminal.press(CTRL_C);
    assert_eq!(terminal.ended().0, Some(0));
    world.team("team.toml", "crew", "Bob", ANSWERING_AGENT);
    world.say("Go on.", &["--resume"]);
    assert!(world.read("prompt").contains("half of it"));
}

#[test]
fn sigterm_at_the_prompt_leaves_and_restores_the_terminal() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    let mut terminal = TeamTerminal::deploy(&world, &[]);
    terminal.expect(PROMPT);
    terminal.say("Hello.");
    terminal.press("half a li");
    terminal.expect("half a li");
    signal("TERM", terminal.pid());
    let (code, shown) = terminal.ended();
    assert_eq!(code, Some(143), "{shown:?}");
    assert!(shown.contains("\u{1b}[?2004l"), "{shown:?}");
    let next = world.say("And?", &["--resume"]);
    assert_eq!(next.lines()[0]["message_count"], 2);
}

#[test]
fn pasted_lines_are_one_message() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    let mut terminal = TeamTerminal::deploy(&world, &[]);
    terminal.expect(PROMPT);
    terminal.press("\u{1b}[200~first line\nsecond line\u{1b}[201~");
    terminal.expect("second line");
    terminal.press("\r");
    terminal.expect("I hear you.");
    terminal.expect(PROMPT);
    assert!(world.read("prompt").contains("first line\nsecond line"));
    terminal.press(CTRL_D);
    terminal.ended();
    assert_eq!(world.say("x", &["--resume"]).lines()[0]["message_count"], 2);
}

#[test]
fn typed_lines_are_stored_only_in_the_ledger() {
    let world = TeamWorld::new("cat > /dev/null; echo yes");
    let mut terminal =
        TeamTerminal::deploy_in(&world, &[], &[("FILROUGE_TEAM_SNAPSHOTS_DIR", "none")]);
    terminal.expect(PROMPT);
    terminal.say("oakwood");
    terminal.press(CTRL_D);
    terminal.ended();
    let mut folders = vec![world.path("")];
    let mut holding = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if std::fs::read(&path).is_ok_and(|b| b.windows(7).any(|w| w == b"oakwood")) {
                holding.push(path);
            }
        }
    }
    let store = world.path(".local/share/filrouge");
    assert!(!holding.is_empty(), "the ledger contains the line");
    assert!(
        holding.iter().all(|path| path.starts_with(&store)),
        "{holding:?}"
    );
}

#[test]
fn a_name_is_colored_unless_colors_are_off() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    let mut terminal = TeamTerminal::deploy_in(&world, &[], &[("NO_COLOR", "")]);
    terminal.expect("/help");
    terminal.expect("Ann");
    terminal.line("Hello.");
    let before = terminal.expect("Bob\u{1b}[0m:");
    assert!(before.contains("\u{1b}[1;38;5;"), "{before:?}");
}
