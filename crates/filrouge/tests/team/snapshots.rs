//! `filrouge team snapshots`

use std::fs;

use serde_json::Value;

use crate::world::{HEARS, World};

#[test]
fn a_snapshot_goes_from_one_ledger_to_another() {
    let one = World::new(HEARS);
    let id = one.say("We build of oak.", &[]).session();
    let listed = one.json(&["team", "snapshots", "list"]);
    assert_eq!(listed["snapshots"][0]["session_id"], Value::from(&*id));
    assert_eq!(listed["snapshots"][0]["message_count"], 2);
    assert_eq!(listed["snapshots"][0]["first_words"], "We build of oak.");
    let exported = one.json(&["team", "snapshots", "export", &id, "--to", "elsewhere"]);
    let path = one.path(exported["path"].as_str().unwrap());
    assert_eq!(
        fs::read(&path).unwrap(),
        fs::read(&one.snapshot_files("crew")[0]).unwrap()
    );

    let other = World::new(HEARS);
    let path = path.to_str().unwrap();
    let shown = other.run(&["team", "snapshots", "show", path]);
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
    let first = other.json(&import);
    assert_eq!((&first["added"], &first["known"]), (&2.into(), &0.into()));
    let second = other.json(&import);
    assert_eq!((&second["added"], &second["known"]), (&0.into(), &2.into()));
    let next = other.say("And the roof?", &["--resume"]);
    assert_eq!(next.session(), id);
    assert!(other.read("prompt").contains("We build of oak."));

    other.team("other.toml", "other", "Bob", HEARS);
    let import = ["team", "snapshots", "import", path, "--team", "other.toml"];
    let refused = other.run(&import);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("crew"), "{refused:?}");
}

#[test]
fn files_that_cannot_be_read_are_named_and_left_alone() {
    let world = World::new(HEARS);
    world.say("Hello.", &[]);
    let whole = fs::read_to_string(&world.snapshot_files("crew")[0]).unwrap();
    let folder = world.path(".agent-chatter/sessions/crew");
    let newer = whole.replace("\"1.0\"", "\"2.0\"");
    assert_ne!(newer, whole);
    let odd = [
        ("1-cut.json", &whole[..whole.len() / 2], "snapshot_cut"),
        ("2-newer.json", &newer, "snapshot_newer"),
        ("3-foreign.json", "{\"a\": 1}", "snapshot_foreign"),
    ];
    for (name, text, _) in odd {
        fs::write(folder.join(name), text).unwrap();
    }
    let listed = world.json(&["team", "snapshots", "list", "--team", "team.toml"]);
    assert_eq!(listed["snapshots"].as_array().unwrap().len(), 1);
    let told = world.run(&["team", "snapshots", "list"]);
    for ((name, text, code), unreadable) in odd.iter().zip(listed["unreadable"].as_array().unwrap())
    {
        assert_eq!(unreadable["code"], *code, "{name}");
        assert!(unreadable["path"].as_str().unwrap().ends_with(name));
        assert!(
            told.stderr.contains(&format!("warning[{code}]")),
            "{told:?}"
        );
        let path = folder.join(name);
        let shown = world.run(&["team", "snapshots", "show", path.to_str().unwrap()]);
        assert_eq!(shown.code, Some(1), "{shown:?}");
        assert!(shown.stderr.contains(code), "{shown:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), *text, "it was changed");
    }
    let absent = world.run(&["team", "snapshots", "show", "absent.json"]);
    assert_eq!(absent.code, Some(2), "{absent:?}");
}

#[test]
fn a_file_that_cannot_be_written_stops_nothing() {
    let world = World::new(HEARS);
    // A file stands where the folder would be made.
    fs::write(world.path("blocked"), "").unwrap();
    let mut command = world.command(&["team", "deploy", "team.toml", "--message", "Hello."]);
    command.env("FILROUGE_TEAM_SNAPSHOTS_DIR", world.path("blocked"));
    let done = crate::world::done(command.output().unwrap());
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stderr.contains("was not written") && done.stderr.contains("blocked"));
    let mut command = world.command(&["team", "deploy", "team.toml", "--message", "Hello."]);
    command.env("FILROUGE_TEAM_SNAPSHOTS_DIR", "none");
    let none = crate::world::done(command.output().unwrap());
    assert!(!none.stderr.contains("written"), "{none:?}");
    assert!(!world.path(".agent-chatter").exists());
}

#[test]
fn what_is_redacted_or_erased_is_in_no_file() {
    let world = World::new(HEARS);
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
    let said = items.iter().find(|item| item.to_string().contains("oak"));
    let seq = said.unwrap()["seq"].to_string();
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

/// A program without the feature says so instead of writing what should be encrypted.
#[cfg(not(feature = "age"))]
#[test]
fn nothing_is_written_plain_that_should_be_encrypted() {
    let world = World::new(HEARS);
    let mut command = world.command(&["team", "deploy", "team.toml", "--message", "Hello."]);
    command.env("FILROUGE_TEAM_PASSPHRASE", "fil rouge");
    let done = crate::world::done(command.output().unwrap());
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.stderr.contains("--features age"), "{done:?}");
    assert!(!world.path(".agent-chatter").exists());
}

#[cfg(feature = "age")]
#[test]
fn a_passphrase_encrypts_files() {
    let world = World::new(HEARS);
    fs::write(world.path("words"), "fil rouge\n").unwrap();
    let mut command = world.command(&["team", "deploy", "team.toml", "--message", "Of oak."]);
    command.env("FILROUGE_TEAM_PASSPHRASE_FILE", world.path("words"));
    let done = crate::world::done(command.output().unwrap());
    assert_eq!(done.code, Some(0), "{done:?}");
    let file = &world.snapshot_files("crew")[0];
    let bytes = fs::read(file).unwrap();
    assert!(bytes.starts_with(b"age-encryption.org/v1"));
    let path = file.to_str().unwrap();
    let blind = world.run(&["team", "snapshots", "show", path]);
    assert!(blind.stderr.contains("snapshot_encrypted"), "{blind:?}");
    let mut command = world.command(&["team", "snapshots", "show", path]);
    command.env("FILROUGE_TEAM_PASSPHRASE", "fil rouge");
    let shown = crate::world::done(command.output().unwrap());
    assert!(shown.stdout.contains("Of oak."), "{shown:?}");
}
