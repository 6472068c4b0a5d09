//! The example teams in `examples/teams` load, and the one without external programs runs.

use std::path::PathBuf;

use filrouge_team::coordinator::Settings;
use filrouge_team::team::Team;

use crate::test_conversation::TestConversation;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/teams")
}

#[test]
fn all_examples_load_and_are_listed_in_the_readme() {
    let readme = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let mut loaded = Vec::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension == "md") {
            continue;
        }
        let team = Team::read(&path).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(team.first_human().is_some() && team.first_agent().is_some());
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(*team.name, *name.split('.').next().unwrap());
        assert!(readme.contains(&format!("[{name}]({name})")), "{name}");
        loaded.push(name);
    }
    loaded.sort();
    let expected = [
        "bridge.toml",
        "claude.toml",
        "codex.toml",
        "gemini.toml",
        "mixed.json",
        "opencode.toml",
    ];
    assert_eq!(loaded, expected);
}

#[tokio::test]
async fn the_bridge_example_runs() {
    let team = Team::read(&folder().join("bridge.toml")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut conversation =
        TestConversation::start(folder, team, Settings::default(), None).unwrap();
    conversation.messages_until_hand_over().await;
    let (messages, floor) = conversation.say("We need a bridge.").await;
    let plan = "Planner: Here is a plan for \"We need a bridge.\":\n1. We measure the brook.\n2. We look for wood.\n3. We build.";
    let review = "Reviewer: The plan does not say what happens when it floods.\n\
                  And our task is still: Decide what the bridge is built of, and who builds it.\nWhat do you think?";
    assert_eq!(messages, ["You: We need a bridge.", plan, review]);
    assert!(floor.starts_with("you-"), "{floor}");
    let (messages, _) = conversation.say("[NEXT: planner] Of stone, then.").await;
    assert!(
        messages[1].ends_with("I have read the 3 messages before yours."),
        "{messages:?}"
    );
}
