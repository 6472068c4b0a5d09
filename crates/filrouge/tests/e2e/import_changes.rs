//! Histories that change after their import, and files that cannot be read.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::import::{import, journal};
use crate::world::{World, copy_tree, fixture};

/// Finds the file or folder whose name starts with `name`.
fn find(folder: &Path, name: &str) -> PathBuf {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path
                .file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with(name)
            {
                return path;
            }
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    panic!("{name} does not exist");
}

/// Changes a JSON file.
fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

/// The turns of the session whose id starts with `session`.
fn turns<'a>(journal: &'a [Value], session: &str) -> &'a [Value] {
    let has_id = |e: &Value| {
        e["session"]["session_id"]
            .as_str()
            .unwrap()
            .starts_with(session)
    };
    journal.iter().find(|e| has_id(e)).unwrap()["turns"]
        .as_array()
        .unwrap()
}

/// The path of the only message without `time.completed`.
fn incomplete_message(folder: &Path) -> PathBuf {
    let messages = find(&folder.join("storage/message"), "ses_3e791c821ffe");
    let mut found = fs::read_dir(messages)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|path| {
            let message: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
            message["role"] == "assistant" && message["time"].get("completed").is_none()
        });
    let path = found.next().unwrap();
    assert!(found.next().is_none());
    path
}

#[test]
fn an_answer_finished_later_replaces_its_turn() {
    let world = World::new();
    let folder = world.path("history");
    copy_tree(&fixture("opencode-json"), &folder);
    import(&world, &folder);
    let before = journal(&world);
    let old = turns(&before, "ses_3e791c821ffe");
    assert_eq!(old.last().unwrap()["status"], "interrupted");

    edit(&incomplete_message(&folder), |message| {
        let created = message["time"]["created"].as_u64().unwrap();
        message["time"]["completed"] = json!(created + 1000);
        message["finish"] = json!("stop");
    });
    let summary = import(&world, &folder);
    assert_eq!(
        (&summary["turns_replaced"], &summary["turns_added"]),
        (&json!(1), &json!(0)),
        "{summary}"
    );
    assert_eq!(summary["skipped"], json!([]));
    let after = journal(&world);
    let new = turns(&after, "ses_3e791c821ffe");
    assert_eq!(new.len(), old.len() + 1);
    let (replaced, newest) = (&new[new.len() - 2], &new[new.len() - 1]);
    assert_eq!(
        (&newest["record_version"], &newest["ordinal"]),
        (&json!(2), &replaced["ordinal"])
    );
    assert_eq!(newest["status"], "finalized");
    assert_eq!(replaced["replaced_by_turn_id"], newest["turn_id"]);
    assert_eq!(replaced["status"], "interrupted");
    world.verify();
    let again = import(&world, &folder);
    assert_eq!(
        (&again["turns_replaced"], &again["items"]),
        (&json!(0), &json!(0)),
        "{again}"
    );
    assert_eq!(journal(&world), after);

    // Each change of the source becomes a new version, even a change back to an earlier state.
    let texts = [
        "a first correction",
        "a second correction",
        "a first correction",
    ];
    for (text, version) in texts.into_iter().zip(3..) {
        edit(&incomplete_part(&folder), |part| {
            part["state"]["title"] = json!(text);
        });
        let summary = import(&world, &folder);
        assert_eq!(summary["turns_replaced"], 1, "{summary}");
        let before = journal(&world);
        let newest = turns(&before, "ses_3e791c821ffe").last().unwrap();
        assert_eq!(newest["record_version"], version);
        assert_eq!(import(&world, &folder)["turns_replaced"], 0);
        assert_eq!(journal(&world), before);
        world.verify();
    }
}

#[test]
fn a_replacement_in_the_ledger_is_kept_until_the_source_changes() {
    let world = World::new();
    let folder = world.path("history");
    copy_tree(&fixture("opencode-json"), &folder);
    import(&world, &folder);
    let before = journal(&world);
    let old = &turns(&before, "ses_3e791c799ffe")[0];
    let server = world.serve();
    let session = old["session_id"].as_str().unwrap();
    let path = format!(
        "/{session}/turns/{}/replace",
        old["turn_id"].as_str().unwrap()
    );
    let body = json!({ "request_id": "manual", "question_neutral": "?", "answer_neutral": "!" });
    server.client().post(&path, &body).wrote(201);
    server.stop();
    let summary = import(&world, &folder);
    assert_eq!(
        (&summary["turns_replaced"], &summary["items"]),
        (&json!(0), &json!(0)),
        "{summary}"
    );
    let part = part_of(&folder, "ses_3e791c799ffe", "text");
    edit(&part, |part| {
        part["text"] = json!("another question");
    });
    let summary = import(&world, &folder);
    assert_eq!(summary["turns_replaced"], 1, "{summary}");
    let after = journal(&world);
    let versions: Vec<&Value> = turns(&after, "ses_3e791c799ffe")
        .iter()
        .map(|t| &t["record_version"])
        .collect();
    assert_eq!(versions, [1, 2, 3]);
    world.verify();
}

#[test]
fn only_content_that_the_ledger_refuses_is_skipped() {
    let world = World::new();
    let folder = world.path("history");
    copy_tree(&fixture("opencode-json"), &folder);
    edit(&part_of(&folder, "ses_3e791c799ffe", "text"), |part| {
        part["text"] = json!("x".repeat(17 << 20));
    });
    let long_title = find(&folder.join("storage/session"), "ses_3a3558451ffe");
    edit(&long_title, |session| {
        session["title"] = json!("t".repeat(5000));
    });
    let summary = import(&world, &folder);
    assert_eq!(summary["sessions_added"], 13, "{summary}");
    let refused = summary["refused"].as_array().unwrap();
    assert_eq!(refused.len(), 2, "{summary}");
    for refusal in refused {
        assert_eq!(refusal["code"], "limit_exceeded");
        let is_session = refusal["session_id"]
            .as_str()
            .unwrap()
            .starts_with("ses_3a3558451ffe");
        assert_eq!(refusal["request_id"].is_null(), is_session);
    }
    world.verify();
    let text = world.ok(&["import", "opencode", folder.to_str().unwrap()]);
    assert!(
        text.contains("refused 2:") && text.contains("limit_exceeded"),
        "{text}"
    );
}

/// The path of a tool's part of the incomplete message.
fn incomplete_part(folder: &Path) -> PathBuf {
    part_of(folder, "ses_3e791c821ffe", "tool")
}

/// The path of the first part of this type in a session.
fn part_of(folder: &Path, session: &str, kind: &str) -> PathBuf {
    let messages = fs::read_dir(folder.join("storage/part")).unwrap();
    let mut parts: Vec<PathBuf> = messages
        .flat_map(|message| fs::read_dir(message.unwrap().path()).unwrap())
        .map(|part| part.unwrap().path())
        .collect();
    parts.sort_by_key(|path| path.file_name().unwrap().to_owned());
    let mut found = parts.into_iter().filter(|path| {
        let part: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        part["type"] == kind && part["sessionID"].as_str().unwrap().starts_with(session)
    });
    found
        .next()
        .unwrap_or_else(|| panic!("{session} has no {kind} part"))
}

#[test]
fn new_turns_of_an_imported_session_are_added() {
    let world = World::new();
    let folder = world.path("history");
    copy_tree(&fixture("opencode-json"), &folder);
    let session = find(&folder.join("storage/session"), "ses_3e791c788ffe");
    let messages = find(&folder.join("storage/message"), "ses_3e791c788ffe");
    let mut paths: Vec<_> = fs::read_dir(&messages)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    paths.sort();
    let later = paths.split_off(2);
    assert!(!later.is_empty());
    let aside = world.path("aside");
    fs::create_dir(&aside).unwrap();
    for path in &later {
        fs::rename(path, aside.join(path.file_name().unwrap())).unwrap();
    }
    import(&world, &folder);
    let before = turns(&journal(&world), "ses_3e791c788ffe").len();
    for path in &later {
        fs::rename(aside.join(path.file_name().unwrap()), path).unwrap();
    }
    edit(&session, |session| {
        session["title"] = json!("Renamed since");
    });
    let summary = import(&world, &folder);
    assert_eq!(
        (&summary["turns_added"], &summary["turns_replaced"]),
        (&json!(1), &json!(0)),
        "{summary}"
    );
    assert_eq!(
        turns(&journal(&world), "ses_3e791c788ffe").len(),
        before + 1
    );
    world.verify();
}

#[test]
fn only_unreadable_files_are_skipped_and_each_is_reported() {
    let world = World::new();
    let folder = world.path("history");
    copy_tree(&fixture("opencode-json"), &folder);
    let session = find(&folder.join("storage/session"), "ses_3a3558451ffe");
    fs::write(&session, "{ \"id\": ").unwrap();
    let messages = find(&folder.join("storage/message"), "ses_3e791c799ffe");
    let message = fs::read_dir(messages)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    fs::write(&message, "").unwrap();
    let part = find(&folder.join("storage/part"), "prt_c186e41bd001");
    fs::write(&part, b"\xff\xfe\x00").unwrap();

    let summary = import(&world, &folder);
    let skipped = summary["skipped"].as_array().unwrap();
    for (path, reason) in [(&session, "torn"), (&message, "empty"), (&part, "not_utf8")] {
        let found = skipped.iter().find(|s| s["path"] == path.to_str().unwrap());
        let found =
            found.unwrap_or_else(|| panic!("{} is not reported: {summary}", path.display()));
        assert_eq!(found["reason"], reason);
        assert!(found["detail"].is_string());
    }
    assert_eq!(summary["sessions_added"], 13);
    world.verify();
    let text = world.ok(&["import", "opencode", folder.to_str().unwrap()]);
    assert!(
        text.contains("skipped 1 (torn)") && text.contains(session.to_str().unwrap()),
        "{text}"
    );

    fs::copy(
        find(
            &fixture("opencode-json/storage/session"),
            "ses_3a3558451ffe",
        ),
        &session,
    )
    .unwrap();
    fs::copy(
        find(
            &fixture("opencode-json/storage/message"),
            message.file_name().unwrap().to_str().unwrap(),
        ),
        &message,
    )
    .unwrap();
    fs::copy(
        find(&fixture("opencode-json/storage/part"), "prt_c186e41bd001"),
        &part,
    )
    .unwrap();
    let repaired = import(&world, &folder);
    assert_eq!(repaired["sessions_added"], 1, "{repaired}");
    world.verify();
    let undisturbed = World::new();
    import(&undisturbed, &folder);
    // The newest question and answer of every turn.
    let texts = |world: &World| -> Vec<(Value, Value)> {
        let sessions = journal(world);
        let all = sessions.iter().flat_map(|e| e["turns"].as_array().unwrap());
        let mut texts: Vec<_> = all
            .filter(|t| t["replaced_by_turn_id"].is_null())
            .map(|t| (t["question_neutral"].clone(), t["answer_neutral"].clone()))
            .collect();
        texts.sort_by_key(|t| format!("{t:?}"));
        texts
    };
    assert_eq!(
        texts(&world),
        texts(&undisturbed),
        "the newest versions differ from an import without damage"
    );
}
