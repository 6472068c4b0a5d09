//! Commands at the prompt.

use crate::terminal::{CTRL_D, PROMPT, TeamTerminal};
use crate::world::{ANSWERING_AGENT, TeamWorld};

#[test]
fn every_command_has_its_effect() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    let mut terminal = TeamTerminal::deploy(&world, &[]);
    terminal.expect(PROMPT);
    for (line, expected) in [
        ("/task", "Task: Build the bridge."),
        ("/members", "Bob (agent): builds"),
        ("/history", "Nothing has been said yet."),
        ("/history x", "x is no number."),
        ("/search", "/search WORDS"),
        ("/team deploy", "/team deploy FILE"),
        ("/team deploy absent.toml", "absent.toml"),
        ("/nonsense", "There is no /nonsense."),
        ("/help", "/team deploy FILE   leave"),
        ("//etc is where it is.", "I hear you."),
        ("/history 1", "I hear you."),
        ("/search etc", "etc"),
        ("/search granite", "Nothing found."),
        ("/task Build of stone.", "Task: Build of stone."),
        ("[NEXT: Nobody] hello", "Unknown: Nobody."),
    ] {
        let shown = terminal.say(line);
        assert!(shown.contains(expected), "{line}: {shown:?}");
    }
    assert!(world.read("prompt").contains("/etc is where it is."));
    terminal.say("Well?");
    assert!(world.read("prompt").contains("Build of stone."));
    let shown = terminal.say("/task -");
    assert!(shown.contains("There is no task."), "{shown:?}");
    terminal.line("/end");
    let (code, shown) = terminal.ended();
    assert_eq!(code, Some(0));
    assert!(shown.contains("Ended, and kept: session "), "{shown:?}");
    let listed = world.json(&["sessions", "list"]);
    assert_eq!(listed["data"][0]["status"], "closed");
}

#[test]
fn an_ended_session_is_resumed_on_request() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    let mut terminal = TeamTerminal::deploy(&world, &[]);
    terminal.expect(PROMPT);
    terminal.say("Hello.");
    terminal.line("/end");
    terminal.ended();
    let next = world.say("One more thing.", &["--resume"]);
    assert_eq!(next.lines()[0]["message_count"], 2);
}

#[test]
fn pause_leaves_and_another_team_is_deployed_from_the_prompt() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    world.team("other.toml", "other", "Eve", ANSWERING_AGENT);
    let mut terminal = TeamTerminal::deploy(&world, &[]);
    terminal.expect(PROMPT);
    terminal.say("Hello.");
    terminal.line("/team deploy other.toml");
    terminal.expect("Kept: session ");
    terminal.expect("Team other: Ann, Eve.");
    terminal.expect(PROMPT);
    let answer = terminal.say("Hello you.");
    assert!(answer.contains("Eve:"), "{answer:?}");
    terminal.line("/pause");
    let (code, shown) = terminal.ended();
    assert_eq!(code, Some(0));
    assert!(shown.contains("Kept: session "), "{shown:?}");
    assert_eq!(world.sessions(), 2);
}

#[test]
fn an_empty_line_lets_the_waiting_speaker_continue() {
    let script = "cat > /dev/null; [ -e asked ] && { echo 'Here I am.'; exit; }; touch asked; \
                  echo '[NEXT: Ann, Bob] You first.'";
    let world = TeamWorld::new(script);
    let mut terminal = TeamTerminal::deploy(&world, &[]);
    terminal.expect(PROMPT);
    terminal.line("Hello.");
    terminal.expect("Waiting: Bob.");
    terminal.expect(PROMPT);
    terminal.line("");
    terminal.expect("Here I am.");
    terminal.expect(PROMPT);
    terminal.press(CTRL_D);
    assert_eq!(terminal.ended().0, Some(0));
}
