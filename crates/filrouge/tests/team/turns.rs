//! Tests of conversations at a terminal.

use crate::terminal::{CTRL_C, CTRL_D, PROMPT, TeamTerminal};
use crate::world::{ANSWERING_AGENT, TeamWorld, WAITING_AGENT, is_alive, signal, until};

const ARROW_UP: &str = "\u{1b}[A";
/// What a terminal sends before and after pasted text.
const PASTE_START: &str = "\u{1b}[200~";
const PASTE_END: &str = "\u{1b}[201~";
/// Makes the terminal send pasted text without these marks.
const BRACKETED_PASTE_OFF: &str = "\u{1b}[?2004l";

#[test]
fn a_conversation_is_left_and_resumed() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    let mut terminal = TeamTerminal::deploy(&world, &[]);
    terminal.expect("Team crew: Ann, Bob.");
    terminal.expect(PROMPT);
    let answer = terminal.say("We build of oak.");
    assert!(answer.contains("Bob:\r\nI hear you.\r\n"), "{answer:?}");
    terminal.press(CTRL_D);
    let (code, shown) = terminal.wait_for_exit();
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
    // The line history contains messages of earlier runs: this recalls the second newest.
    terminal.press(&ARROW_UP.repeat(2));
    terminal.expect("We build of oak.");
    terminal.press(" Again.\r");
    terminal.expect("I hear you.");
    terminal.expect(PROMPT);
    assert!(world.read("prompt").contains("We build of oak. Again."));
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit().0, Some(0));
    assert_eq!(world.sessions(), 1);
}

#[test]
fn ctrl_c_cancels_an_answer_and_twice_exits() {
    let world = TeamWorld::new(WAITING_AGENT);
    let mut terminal = TeamTerminal::deploy(&world, &[]);
    terminal.expect(PROMPT);
    terminal.send_line("Build!");
    terminal.expect("half of it");
    terminal.press(CTRL_C);
    terminal.expect("[cancelled]");
    terminal.expect(PROMPT);
    until("the agent's child ends", || !is_alive(&world.read("child")));
    terminal.press(CTRL_C);
    terminal.expect("Ctrl-C again");
    terminal.expect(PROMPT);
    terminal.press(CTRL_C);
    assert_eq!(terminal.wait_for_exit().0, Some(0));
    world.write_team("team.toml", "crew", "Bob", ANSWERING_AGENT);
    world.say("Go on.", &["--resume"]);
    assert!(world.read("prompt").contains("half of it"));
}

#[test]
fn sigterm_at_the_prompt_exits_and_restores_the_terminal() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    let mut terminal = TeamTerminal::deploy(&world, &[]);
    terminal.expect(PROMPT);
    terminal.say("Hello.");
    terminal.press("half a li");
    terminal.expect("half a li");
    signal("TERM", terminal.pid());
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, Some(143), "{shown:?}");
    assert!(shown.contains(BRACKETED_PASTE_OFF), "{shown:?}");
    let next = world.say("And?", &["--resume"]);
    assert_eq!(next.lines()[0]["message_count"], 2);
}

#[test]
fn pasted_lines_are_one_message() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    let mut terminal = TeamTerminal::deploy(&world, &[]);
    terminal.expect(PROMPT);
    terminal.press(&format!("{PASTE_START}first line\nsecond line{PASTE_END}"));
    terminal.expect("second line");
    terminal.press("\r");
    terminal.expect("I hear you.");
    terminal.expect(PROMPT);
    assert!(world.read("prompt").contains("first line\nsecond line"));
    terminal.press(CTRL_D);
    terminal.wait_for_exit();
    assert_eq!(world.say("x", &["--resume"]).lines()[0]["message_count"], 2);
}

#[test]
fn typed_lines_are_stored_only_in_the_ledger() {
    let world = TeamWorld::new("cat > /dev/null; echo yes");
    let mut terminal =
        TeamTerminal::deploy_with_env(&world, &[], &[("FILROUGE_TEAM_SNAPSHOTS_DIR", "none")]);
    terminal.expect(PROMPT);
    terminal.say("oakwood");
    terminal.press(CTRL_D);
    terminal.wait_for_exit();
    let mut folders = vec![world.path("")];
    let mut files_with_line = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if std::fs::read(&path).is_ok_and(|b| b.windows(7).any(|w| w == b"oakwood")) {
                files_with_line.push(path);
            }
        }
    }
    let store = world.path(".local/share/filrouge");
    assert!(!files_with_line.is_empty(), "the line is in no file");
    assert!(
        files_with_line.iter().all(|path| path.starts_with(&store)),
        "the line is in {files_with_line:?}"
    );
}

#[test]
fn an_empty_no_color_leaves_names_colored() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    let mut terminal = TeamTerminal::deploy_with_env(&world, &[], &[("NO_COLOR", "")]);
    terminal.expect("/help");
    terminal.expect("Ann");
    terminal.send_line("Hello.");
    let before = terminal.expect("Bob\u{1b}[0m:");
    assert!(before.contains("\u{1b}[1;38;5;"), "{before:?}");
}
