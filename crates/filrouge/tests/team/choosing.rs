//! Choosing between earlier sessions and a new one.

use crate::terminal::{CTRL_C, CTRL_D, ESC, PROMPT, Terminal};
use crate::world::{HALTS, HEARS, World, until};

#[test]
fn who_cancels_makes_nothing() {
    let world = World::new(HEARS);
    world.say("Hello.", &[]);
    for key in [ESC, CTRL_C, CTRL_D] {
        let mut terminal = Terminal::deploy(&world, &[]);
        terminal.expect("[N] Start new");
        // Neither Enter nor another key is a yes.
        terminal.press("\rx ");
        terminal.press(key);
        let (code, shown) = terminal.ended();
        assert_eq!(code, Some(0), "{shown:?}");
        assert!(shown.contains("Nothing was begun."), "{shown:?}");
    }
    assert_eq!(world.sessions(), 1);
}

#[test]
fn what_is_shown_is_what_is_loaded() {
    let world = World::new(HEARS);
    let older = world.say("The older one.", &[]).session();
    world.say("More of it.", &[&format!("--resume={older}")]);
    world.say("The newer one.", &[]);
    let mut terminal = Terminal::deploy(&world, &[]);
    terminal.expect("Found 2 earlier sessions:");
    terminal.expect("  1  just now, 2 messages  “The newer one.”");
    terminal.expect("  2  just now, 4 messages  “The older one.”");
    terminal.expect("[1-2] Resume that one  [R] Resume the newest  [N] Start new");
    terminal.press("2");
    let recalled = terminal.expect(PROMPT);
    assert!(recalled.contains("The older one.") && recalled.contains("4 messages"));
    terminal.press(CTRL_D);
    let (_, shown) = terminal.ended();
    assert!(shown.contains(&older), "{shown:?}");

    let mut terminal = Terminal::deploy(&world, &[]);
    terminal.expect("[N] Start new");
    terminal.press("n");
    let greeting = terminal.expect(PROMPT);
    assert!(!greeting.contains("messages"), "{greeting:?}");
}

#[test]
fn options_answer_beforehand() {
    let world = World::new(HEARS);
    let id = world.say("Hello.", &[]).session();
    for arguments in [&["--resume"][..], &[&format!("--resume={id}")]] {
        let mut terminal = Terminal::deploy(&world, arguments);
        terminal.expect("Resumed: ");
        terminal.expect(PROMPT);
        terminal.press(CTRL_D);
        assert!(terminal.ended().1.contains(&id));
    }
    let mut terminal = Terminal::deploy(&world, &["--new"]);
    assert!(!terminal.expect(PROMPT).contains("Resumed"));
}

#[test]
fn a_session_that_is_open_elsewhere_is_named_and_refused() {
    let world = World::new(HALTS);
    let mut holder = Terminal::deploy(&world, &[]);
    holder.expect(PROMPT);
    holder.line("Build!");
    until("an answer", || world.path("child").exists());
    holder.expect("half of it");
    let mut terminal = Terminal::deploy(&world, &[]);
    let process = format!("process {}", holder.pid());
    terminal.expect(&process);
    terminal.expect("[N] Start new");
    terminal.press("r");
    let (code, shown) = terminal.ended();
    assert_eq!(code, Some(5), "{shown:?}");
    assert!(shown.contains(&process), "{shown:?}");
}

#[test]
fn a_file_that_the_ledger_does_not_know_is_offered() {
    let one = World::new(HEARS);
    one.say("We build of oak.", &[]);
    let other = World::new(HEARS);
    let folder = other.path(".agent-chatter/sessions/crew");
    std::fs::create_dir_all(&folder).unwrap();
    let file = &one.snapshot_files("crew")[0];
    std::fs::copy(file, folder.join(file.file_name().unwrap())).unwrap();
    std::fs::write(folder.join("9-odd.json"), "{").unwrap();
    let mut terminal = Terminal::deploy(&other, &[]);
    terminal.expect("9-odd.json");
    terminal.expect("  1  just now, 2 messages  “We build of oak.”  (in the file ");
    terminal.press("1");
    terminal.expect("Resumed: ");
    terminal.expect(PROMPT);
    terminal.say("And the roof?");
    assert!(other.read("prompt").contains("We build of oak."));
}

#[test]
fn in_french_and_in_chinese() {
    let world = World::new(HEARS);
    world.say("Bonjour.", &[]);
    for (locale, found) in [
        (
            "fr_FR.UTF-8",
            "Une session antérieure existe (à l’instant, 2 messages).  [R] Reprendre",
        ),
        ("zh_CN.UTF-8", "发现历史会话（刚刚，2 条消息）。  [R] 恢复"),
    ] {
        let mut terminal = Terminal::deploy_in(&world, &[], &[("LC_ALL", locale)]);
        terminal.expect(found);
        terminal.press(ESC);
        assert_eq!(terminal.ended().0, Some(0));
    }
}

#[test]
fn a_renamed_member_is_warned_of() {
    let world = World::new(HEARS);
    world.say("Hello.", &[]);
    world.team("team.toml", "crew", "Robert", HEARS);
    let mut terminal = Terminal::deploy(&world, &[]);
    terminal.expect("[N] Start new ");
    terminal.press("r");
    terminal.expect("No longer in the team: Bob. What they said stays.");
    terminal.expect(PROMPT);
    let answer = terminal.say("Who are you?");
    assert!(answer.contains("Robert:"), "{answer:?}");
    assert!(world.read("prompt").contains("Bob"));
}
