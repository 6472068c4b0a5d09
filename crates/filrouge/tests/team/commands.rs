//! Tests of the commands at the prompt.

use crate::terminal::{CTRL_D, PROMPT, TeamTerminal};
use crate::world::{ANSWERING_AGENT, TeamWorld};

#[test]
fn every_command_prints_its_result() {
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
    terminal.send_line("/end");
    let (code, shown) = terminal.wait_for_exit();
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
    terminal.send_line("/end");
    terminal.wait_for_exit();
    let next = world.say("One more thing.", &["--resume"]);
    assert_eq!(next.lines()[0]["message_count"], 2);
}

#[test]
fn another_team_is_deployed_from_the_prompt_and_paused() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    world.write_team("other.toml", "other", "Eve", ANSWERING_AGENT);
    let mut terminal = TeamTerminal::deploy(&world, &[]);
    terminal.expect(PROMPT);
    terminal.say("Hello.");
    terminal.send_line("/team deploy other.toml");
    terminal.expect("Kept: session ");
    terminal.expect("Team other: Ann, Eve.");
    terminal.expect(PROMPT);
    let answer = terminal.say("Hello you.");
    assert!(answer.contains("Eve:"), "{answer:?}");
    terminal.send_line("/pause");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, Some(0));
    assert!(shown.contains("Kept: session "), "{shown:?}");
    assert_eq!(world.sessions(), 2);
}

#[test]
fn an_empty_line_gives_the_turn_to_the_waiting_speaker() {
    let script = "cat > /dev/null; [ -e asked ] && { echo 'Here I am.'; exit; }; touch asked; \
                  echo '[NEXT: Ann, Bob] You first.'";
    let world = TeamWorld::new(script);
    let mut terminal = TeamTerminal::deploy(&world, &[]);
    terminal.expect(PROMPT);
    terminal.send_line("Hello.");
    terminal.expect("Waiting: Bob.");
    terminal.expect(PROMPT);
    terminal.send_line("");
    terminal.expect("Here I am.");
    terminal.expect(PROMPT);
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit().0, Some(0));
}
