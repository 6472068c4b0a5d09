//! Tests of snapshot files and of `filrouge team snapshots`.

use std::fs;

use serde_json::Value;

use crate::world::{ANSWERING_AGENT, TeamWorld};

#[test]
fn a_snapshot_is_moved_to_another_ledger() {
    let first_home = TeamWorld::new(ANSWERING_AGENT);
    let id = first_home.say("We build of oak.", &[]).session();
    let listed = first_home.json(&["team", "snapshots", "list"]);
    assert_eq!(listed["snapshots"][0]["session_id"], Value::from(&*id));
    assert_eq!(listed["snapshots"][0]["message_count"], 2);
    assert_eq!(listed["snapshots"][0]["first_words"], "We build of oak.");
    let exported = first_home.json(&["team", "snapshots", "export", &id, "--to", "elsewhere"]);
    let path = first_home.path(exported["path"].as_str().unwrap());
    assert_eq!(
        fs::read(&path).unwrap(),
        fs::read(&first_home.snapshot_files("crew")[0]).unwrap()
    );

    let other_home = TeamWorld::new(ANSWERING_AGENT);
    let path = path.to_str().unwrap();
    let shown = other_home.run(&["team", "snapshots", "show", path]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    for words in [
        "task: Build the bridge.",
        "Ann",
        "We build of oak.",
        "I hear you.",
    ] {
        assert!(shown.stdout.contains(words), "{shown:?}");
    }
    let import = ["team", "snapshots", "import", path, "--team", "team.toml"];
    let first = other_home.json(&import);
    assert_eq!((&first["added"], &first["known"]), (&2.into(), &0.into()));
    let second = other_home.json(&import);
    assert_eq!((&second["added"], &second["known"]), (&0.into(), &2.into()));
    let next = other_home.say("And the roof?", &["--resume"]);
    assert_eq!(next.session(), id);
    assert!(other_home.read("prompt").contains("We build of oak."));

    other_home.write_team("other.toml", "other", "Bob", ANSWERING_AGENT);
    let import = ["team", "snapshots", "import", path, "--team", "other.toml"];
    let refused = other_home.run(&import);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("crew"), "{refused:?}");
}

#[test]
fn a_session_that_only_a_snapshot_has_is_resumed_by_its_id() {
    let first = TeamWorld::new(ANSWERING_AGENT);
    let id = first.say("We build of oak.", &[]).session();
    let other = TeamWorld::new(ANSWERING_AGENT);
    let folder = other.path(".agent-chatter/sessions/crew");
    fs::create_dir_all(&folder).unwrap();
    let file = &first.snapshot_files("crew")[0];
    fs::copy(file, folder.join(file.file_name().unwrap())).unwrap();
    let absent = other.deploy(&["--resume=another", "--message", "x"]);
    assert_eq!(absent.code, Some(3), "{absent:?}");
    let resumed = other.say("And the roof?", &[&format!("--resume={id}")]);
    assert_eq!(resumed.session(), id);
    assert!(other.read("prompt").contains("We build of oak."));
}

#[test]
fn unreadable_files_are_named_and_not_changed() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    world.say("Hello.", &[]);
    let valid = fs::read_to_string(&world.snapshot_files("crew")[0]).unwrap();
    let folder = world.path(".agent-chatter/sessions/crew");
    let newer = valid.replace("\"1.0\"", "\"2.0\"");
    assert_ne!(newer, valid);
    let unreadable_files = [
        ("1-cut.json", &valid[..valid.len() / 2], "snapshot_cut"),
        ("2-newer.json", &newer, "snapshot_newer"),
        ("3-foreign.json", "{\"a\": 1}", "snapshot_foreign"),
    ];
    for (name, text, _) in unreadable_files {
        fs::write(folder.join(name), text).unwrap();
    }
    let listed = world.json(&["team", "snapshots", "list", "--team", "team.toml"]);
    assert_eq!(listed["snapshots"].as_array().unwrap().len(), 1);
    let printed = world.run(&["team", "snapshots", "list"]);
    for ((name, text, code), unreadable) in unreadable_files
        .iter()
        .zip(listed["unreadable"].as_array().unwrap())
    {
        assert_eq!(unreadable["code"], *code, "{name}");
        assert!(unreadable["path"].as_str().unwrap().ends_with(name));
        assert!(
            printed.stderr.contains(&format!("warning[{code}]")),
            "{printed:?}"
        );
        let path = folder.join(name);
        let shown = world.run(&["team", "snapshots", "show", path.to_str().unwrap()]);
        assert_eq!(shown.code, Some(1), "{shown:?}");
        assert!(shown.stderr.contains(code), "{shown:?}");
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            *text,
            "{name} was changed"
        );
    }
    let absent = world.run(&["team", "snapshots", "show", "absent.json"]);
    assert_eq!(absent.code, Some(2), "{absent:?}");
}

#[test]
fn a_file_that_cannot_be_written_does_not_stop_the_conversation() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    // The name of the folder is taken by a file.
    fs::write(world.path("blocked"), "").unwrap();
    let mut command = world.command(&["team", "deploy", "team.toml", "--message", "Hello."]);
    command.env("FILROUGE_TEAM_SNAPSHOTS_DIR", world.path("blocked"));
    let done = crate::world::to_output(command.output().unwrap());
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stderr.contains("was not written") && done.stderr.contains("blocked"));
    let mut command = world.command(&["team", "deploy", "team.toml", "--message", "Hello."]);
    command.env("FILROUGE_TEAM_SNAPSHOTS_DIR", "none");
    let none = crate::world::to_output(command.output().unwrap());
    assert!(!none.stderr.contains("written"), "{none:?}");
    assert!(!world.path(".agent-chatter").exists());
}

#[test]
fn redacted_and_erased_contents_are_in_no_snapshot() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    let id = world.say("We build of oak.", &[]).session();
    let other = world.say("We build of beech.", &[]).session();
    let all = || {
        let files = world.snapshot_files("crew");
        let texts = files.iter().map(|path| fs::read_to_string(path).unwrap());
        texts.collect::<String>()
    };
    assert!(all().contains("oak") && all().contains("beech"));
    let shown = world.json(&["sessions", "show", &id]);
    let items = shown["items"].as_array().unwrap();
    let item = items.iter().find(|item| item.to_string().contains("oak"));
    let seq = item.unwrap()["seq"].to_string();
    let redact = ["redact", &id, "--seq", &seq, "--reason", "secret"];
    let done = world.run(&redact);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(!all().contains("oak") && all().contains("I hear you."));
    let done = world.run(&["erase", "--session", &other, "--yes"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(!all().contains("beech"));
    assert_eq!(world.snapshot_files("crew").len(), 1);
    let next = world.say("Which wood?", &["--resume"]);
    assert_eq!(next.session(), id);
    assert!(!world.read("prompt").contains("oak") && !all().contains("oak"));
}

/// If encryption is configured, a program without the feature `age` reports the feature and writes no files.
#[cfg(not(feature = "age"))]
#[test]
fn without_the_feature_age_nothing_is_written_unencrypted() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    let mut command = world.command(&["team", "deploy", "team.toml", "--message", "Hello."]);
    command.env("FILROUGE_TEAM_PASSPHRASE", "fil rouge");
    let done = crate::world::to_output(command.output().unwrap());
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.stderr.contains("--features age"), "{done:?}");
    assert!(!world.path(".agent-chatter").exists());
}

#[cfg(feature = "age")]
#[test]
fn a_passphrase_encrypts_snapshots() {
    let world = TeamWorld::new(ANSWERING_AGENT);
    fs::write(world.path("words"), "fil rouge\n").unwrap();
    let mut command = world.command(&["team", "deploy", "team.toml", "--message", "Of oak."]);
    command.env("FILROUGE_TEAM_PASSPHRASE_FILE", world.path("words"));
    let done = crate::world::to_output(command.output().unwrap());
    assert_eq!(done.code, Some(0), "{done:?}");
    let file = &world.snapshot_files("crew")[0];
    let bytes = fs::read(file).unwrap();
    assert!(bytes.starts_with(b"age-encryption.org/v1"));
    let path = file.to_str().unwrap();
    let without_key = world.run(&["team", "snapshots", "show", path]);
    assert!(
        without_key.stderr.contains("snapshot_encrypted"),
        "{without_key:?}"
    );
    let mut command = world.command(&["team", "snapshots", "show", path]);
    command.env("FILROUGE_TEAM_PASSPHRASE", "fil rouge");
    let shown = crate::world::to_output(command.output().unwrap());
    assert!(shown.stdout.contains("Of oak."), "{shown:?}");
}
