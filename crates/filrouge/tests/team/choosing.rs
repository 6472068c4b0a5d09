//! Tests of the choice between earlier sessions and a new one.

use crate::terminal::{CTRL_C, CTRL_D, ESC, PROMPT, TeamTerminal};
use crate::world::{ANSWERING_AGENT, TeamWorld, WAITING_AGENT, until};

#[test]
fn a_cancelled_choice_creates_nothing() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    world.say("Hello.", &[]);
    for key in [ESC, CTRL_C, CTRL_D] {
        let mut terminal = TeamTerminal::deploy(&world, &[]);
        terminal.expect("[N] Start new");
        // Enter, x and space choose nothing.
        terminal.press("\rx ");
        terminal.press(key);
        let (code, shown) = terminal.wait_for_exit();
        assert_eq!(code, Some(0), "{shown:?}");
        assert!(shown.contains("No session was started."), "{shown:?}");
    }
    assert_eq!(world.sessions(), 1);
}

#[test]
fn the_chosen_session_is_resumed() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    let older = world.say("The older one.", &[]).session();
    world.say("More of it.", &[&format!("--resume={older}")]);
    world.say("The newer one.", &[]);
    let mut terminal = TeamTerminal::deploy(&world, &[]);
    terminal.expect("Found 2 earlier sessions:");
    terminal.expect("  1  just now, 2 messages  “The newer one.”");
    terminal.expect("  2  just now, 4 messages  “The older one.”");
    terminal.expect("[1-2] Resume that one  [R] Resume the newest  [N] Start new");
    terminal.press("2");
    let recalled = terminal.expect(PROMPT);
    assert!(recalled.contains("The older one.") && recalled.contains("4 messages"));
    terminal.press(CTRL_D);
    let (_, shown) = terminal.wait_for_exit();
    assert!(shown.contains(&older), "{shown:?}");

    let mut terminal = TeamTerminal::deploy(&world, &[]);
    terminal.expect("[N] Start new");
    terminal.press("n");
    let greeting = terminal.expect(PROMPT);
    assert!(!greeting.contains("messages"), "{greeting:?}");
}

#[test]
fn options_replace_the_choice() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    let id = world.say("Hello.", &[]).session();
    for arguments in [&["--resume"][..], &[&format!("--resume={id}")]] {
        let mut terminal = TeamTerminal::deploy(&world, arguments);
        terminal.expect("Resumed: ");
        terminal.expect(PROMPT);
        terminal.press(CTRL_D);
        assert!(terminal.wait_for_exit().1.contains(&id));
    }
    let mut terminal = TeamTerminal::deploy(&world, &["--new"]);
    assert!(!terminal.expect(PROMPT).contains("Resumed"));
}

#[test]
fn a_session_that_is_open_elsewhere_is_named_and_refused() {
    let world = TeamWorld::new(WAITING_AGENT);
    let mut holder = TeamTerminal::deploy(&world, &[]);
    holder.expect(PROMPT);
    holder.send_line("Build!");
    until("the agent answers", || world.path("child").exists());
    holder.expect("half of it");
    let mut terminal = TeamTerminal::deploy(&world, &[]);
    let process = format!("process {}", holder.pid());
    terminal.expect(&process);
    terminal.expect("[N] Start new");
    terminal.press("r");
    let (code, shown) = terminal.wait_for_exit();
    assert_eq!(code, Some(5), "{shown:?}");
    assert!(shown.contains(&process), "{shown:?}");
}

#[test]
fn a_snapshot_of_another_ledger_is_offered() {
    let first = TeamWorld::new(ANSWERING_AGENT);
    first.say("We build of oak.", &[]);
    let other = TeamWorld::new(ANSWERING_AGENT);
    let folder = other.path(".agent-chatter/sessions/crew");
    std::fs::create_dir_all(&folder).unwrap();
    let file = &first.snapshot_files("crew")[0];
    std::fs::copy(file, folder.join(file.file_name().unwrap())).unwrap();
    std::fs::write(folder.join("9-unreadable.json"), "{").unwrap();
    let mut terminal = TeamTerminal::deploy(&other, &[]);
    terminal.expect("9-unreadable.json");
    terminal.expect("  1  just now, 2 messages  “We build of oak.”  (in the file ");
    terminal.press("1");
    terminal.expect("Resumed: ");
    terminal.expect(PROMPT);
    terminal.say("And the roof?");
    assert!(other.read("prompt").contains("We build of oak."));
}

#[test]
fn the_choice_is_shown_in_french_and_in_chinese() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    world.say("Bonjour.", &[]);
    for (locale, choice) in [
        (
            "fr_FR.UTF-8",
            "Une session antérieure existe (à l’instant, 2 messages).  [R] Reprendre",
        ),
        ("zh_CN.UTF-8", "发现历史会话（刚刚，2 条消息）。  [R] 恢复"),
    ] {
        let mut terminal = TeamTerminal::deploy_with_env(&world, &[], &[("LC_ALL", locale)]);
        terminal.expect(choice);
        terminal.press(ESC);
        assert_eq!(terminal.wait_for_exit().0, Some(0));
    }
}

#[test]
fn a_renamed_member_causes_a_warning() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    world.say("Hello.", &[]);
    world.write_team("team.toml", "crew", "Robert", ANSWERING_AGENT);
    let mut terminal = TeamTerminal::deploy(&world, &[]);
    terminal.expect("[N] Start new ");
    terminal.press("r");
    terminal.expect("No longer in the team: Bob. What they said stays.");
    terminal.expect(PROMPT);
    let answer = terminal.say("Who are you?");
    assert!(answer.contains("Robert:"), "{answer:?}");
    assert!(world.read("prompt").contains("Bob"));
}
