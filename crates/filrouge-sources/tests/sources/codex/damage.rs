//! Tests of growing and damaged files, of forks, and of files of early versions.

use std::fs::OpenOptions;
use std::io::Write;

use filrouge_sources::ReadError;

use super::*;
use crate::fingerprint;

/// A fork as Codex writes it: its own first record, the copied records of the origin, and its own turn. Without
/// `with_ids`, the copied records have no ids of threads and turns.
fn fork(id: &str, with_ids: bool) -> Vec<Value> {
    let mut records = records(ORCHARD);
    let mut meta = records[0].clone();
    meta["payload"]["id"] = json!(id);
    meta["payload"]["session_id"] = json!(id);
    meta["payload"]["forked_from_id"] = json!(ORCHARD);
    meta["payload"]["timestamp"] = json!("2026-11-21T21:00:00.000Z");
    records.insert(0, meta);
    for record in &mut records {
        record["timestamp"] = json!("2026-11-21T21:00:00.010Z");
        record.as_object_mut().unwrap().remove("ordinal");
        if !with_ids {
            for key in [
                "thread_id",
                "turn_id",
                "internal_chat_message_metadata_passthrough",
                "metadata",
            ] {
                record["payload"].as_object_mut().unwrap().remove(key);
            }
        }
    }
    let turn = "01a1ffe8-b500-7e20-8328-d59563cf4e37";
    let passthrough = json!({"turn_id": turn, "content_item_kinds": ["user.text"]});
    let at = "2026-11-21T21:00:09.000Z";
    records.push(json!({"timestamp": at, "type": "event_msg", "payload": {"type": "task_started", "turn_id": turn}}));
    records.push(json!({"timestamp": at, "type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "and the fig?"}], "internal_chat_message_metadata_passthrough": passthrough}}));
    records.push(json!({"timestamp": at, "type": "response_item", "payload": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "no fig"}]}}));
    records.push(json!({"timestamp": at, "type": "token_usage_record", "payload": {"thread_id": id, "turn_id": turn, "usage": {"input_tokens": 10, "output_tokens": 3}}}));
    records
}

#[test]
fn copies_in_a_fork_are_marked() {
    for with_ids in [true, false] {
        let dir = copy_of("codex");
        let id = "01a1ffe8-ab80-77c1-8cfe-49d0d2a644dd";
        write_records(&file(dir.path(), id), &fork(id, with_ids));
        let source = open(dir.path());
        assert_eq!(header(&*source, id).fork_of.as_deref(), Some(ORCHARD));
        let read = source.read(id).unwrap();
        let origin = source.read(ORCHARD).unwrap();
        let copied: Vec<_> = read.messages.iter().filter(|m| m.copied).collect();
        assert_eq!(copied.len(), origin.messages.len(), "{with_ids}");
        let own_messages: Vec<_> = read.messages.iter().filter(|m| !m.copied).collect();
        assert_eq!(own_messages.len(), 2, "{with_ids}");
        assert_eq!(own_messages[1].tokens.unwrap().input, 10);
        let mut tokens = token_sum(&origin);
        tokens.add(&own_messages[1].tokens.unwrap());
        assert_eq!(token_sum(&read), tokens);
    }
}

#[test]
fn files_of_early_versions_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let item = |role: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]});
    let id = "5973b6c0-94b8-487b-a530-2aeb6098ae0e";
    let first = [
        json!({"id": id, "timestamp": "2025-05-07T17:24:21.597Z", "instructions": null}),
        item("user", "<environment_context>\nx"),
        item("user", "look"),
        json!({"record_type": "state"}),
        json!({"type": "local_shell_call", "call_id": "c1", "status": "completed", "action": {"type": "exec", "command": ["ls"]}}),
        json!({"type": "function_call_output", "call_id": "c1", "output": "{\"output\":\"a.txt\\n\",\"metadata\":{\"exit_code\":2}}"}),
        json!({"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "q"}}),
        item("assistant", "one file"),
    ];
    write_records(
        &dir.path().join(format!(
            "sessions/2025/05/07/rollout-2025-05-07T17-24-21-{id}.jsonl"
        )),
        &first,
    );
    let time = |s: u32| format!("2025-09-07T10:00:{s:02}.000Z");
    let event = |s: u32, payload: Value| json!({"timestamp": time(s), "type": "event_msg", "payload": payload});
    let count = |s: u32, input: u64| {
        event(
            s,
            json!({"type": "token_count", "info": {"total_token_usage": {"input_tokens": input, "cached_input_tokens": 1, "output_tokens": 2}}}),
        )
    };
    let event_records = [
        json!({"timestamp": time(0), "type": "session_meta", "payload": {"id": "e", "timestamp": time(0), "cwd": "/w", "cli_version": "0.40.0", "source": {"subagent": {"thread_spawn": {"parent_thread_id": id, "agent_role": "explorer"}}}}}),
        event(1, json!({"type": "user_message", "message": "hello"})),
        event(2, json!({"type": "agent_reasoning", "text": "hm"})),
        event(3, json!({"type": "agent_message", "message": "good day"})),
        count(4, 10),
        count(5, 10),
        count(6, 25),
        json!({"timestamp": time(7), "type": "compacted", "payload": {"message": "they greeted"}}),
        event(8, json!({"type": "user_message", "message": "again"})),
        event(9, json!({"type": "turn_aborted", "reason": "interrupted"})),
        event(10, json!({"type": "user_message", "message": "more"})),
        event(
            11,
            json!({"type": "error", "message": "no quota", "codex_error_info": "usage_limit_exceeded"}),
        ),
        json!({"timestamp": time(12), "type": "later_kind", "payload": {}}),
    ];
    let archived = dir.path().join("archived_sessions/rollout-e.jsonl");
    write_records(&archived, &event_records);
    fs::write(archived.with_extension("jsonl.zst"), "z").unwrap();
    let source = open(dir.path());
    let listing = source.list().unwrap();
    assert_eq!(
        listing.skipped.iter().map(|s| s.reason).collect::<Vec<_>>(),
        [SkipReason::WrongKind]
    );

    let read = source.read(id).unwrap();
    assert_eq!(read.skipped, []);
    assert_eq!(
        typed_and_answered(&read),
        [(Role::User, "look"), (Role::Assistant, "one file")]
    );
    assert_eq!(tools(&read)[0].error.as_deref(), Some("a.txt\n"));
    assert_eq!(
        (&*tools(&read)[0].name, &*tools(&read)[1].name),
        ("local_shell", "web_search")
    );
    assert_eq!(tools(&read)[1].status, ToolStatus::Completed);
    assert_eq!(header(&*source, id).title.as_deref(), Some("look"));

    let early = header(&*source, "rollout-e");
    assert!(early.archived.is_some());
    assert_eq!(
        (early.parent_id.as_deref(), early.agent.as_deref()),
        (Some(id), Some("explorer"))
    );
    let read = source.read("rollout-e").unwrap();
    assert_eq!(
        typed_and_answered(&read),
        [
            (Role::User, "hello"),
            (Role::Assistant, "good day"),
            (Role::User, "again"),
            (Role::User, "more")
        ]
    );
    assert_eq!(
        (token_sum(&read).input, token_sum(&read).cache_read),
        (24, 1)
    );
    let boundary = &read.boundaries[0];
    assert!(read.messages[boundary.at].summary);
    let errors: Vec<_> = read
        .messages
        .iter()
        .filter_map(|m| m.error.as_ref())
        .map(|e| (&*e.name, &*e.message))
        .collect();
    assert_eq!(
        errors,
        [
            ("turn_aborted", "interrupted"),
            ("usage_limit_exceeded", "no quota")
        ]
    );
    assert_eq!(
        read.skipped.iter().map(|s| s.reason).collect::<Vec<_>>(),
        [SkipReason::UnknownKind]
    );
    let outcomes: Vec<_> = source
        .load("rollout-e")
        .unwrap()
        .turns
        .iter()
        .map(|t| format!("{:?}", t.outcome))
        .collect();
    assert_eq!(outcomes[..2], ["Finalized", "Cancelled"]);
    assert!(outcomes[2].starts_with("Failed"), "{outcomes:?}");
}

#[test]
fn broken_lines_are_skipped_and_reported() {
    let dir = copy_of("codex");
    let path = file(dir.path(), WINTER);
    let complete = open(dir.path()).read(WINTER).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let user = text
        .lines()
        .find(|line| line.contains("\"user.text\""))
        .unwrap();
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    for line in [
        "garbage\n\n".as_bytes(),
        b"{\"type\":\"response_item\",\0}\n",
        b"{\"type\":\"response_item\",\"payload\":{\"type\":\"message\xff\"}}\n",
        b"{\"x\":1}\n[]\n",
        user.as_bytes(),
        b"\n{\"type\":\"response_item\",\"payload\":{\"type\":\"new_thing\",\"a\":1}}\n",
        b"{\"timestamp\":\"2026-11-21T20:38:50.000Z\",\"type\":\"response_item\",\"payload\":{\"ty",
    ] {
        file.write_all(line).unwrap();
    }
    let read = open(dir.path()).read(WINTER).unwrap();
    assert_eq!(read.messages[..complete.messages.len()], complete.messages);
    let last = read.messages.last().unwrap();
    assert!(
        matches!(&last.parts[0].kind, PartKind::Other { name, json } if &**name == "new_thing" && json.contains("\"a\":1"))
    );
    let mut reasons: Vec<_> = read.skipped.iter().map(|s| s.reason.as_str()).collect();
    reasons.sort();
    assert_eq!(
        reasons,
        [
            "bad_field",
            "duplicate_id",
            "malformed",
            "malformed",
            "not_utf8",
            "torn",
            "torn"
        ]
    );
}

#[test]
fn a_file_is_read_while_it_grows() {
    let dir = copy_of("codex");
    let path = file(dir.path(), WINTER);
    let text = fs::read(&path).unwrap();
    let source = open(dir.path());
    let complete = source.read(WINTER).unwrap();
    let mut states = BTreeSet::new();
    for cut in (0..text.len()).step_by(499) {
        fs::write(&path, &text[..cut]).unwrap();
        let Ok(read) = source.read(WINTER) else {
            assert!(cut < 800, "{cut}");
            continue;
        };
        let torn: Vec<_> = read.skipped.iter().map(|s| s.reason).collect();
        assert!(
            torn.is_empty() || torn == [SkipReason::Torn],
            "{cut}: {torn:?}"
        );
        let has_open_call = tools(&read).iter().any(|t| t.status == ToolStatus::Running);
        let last = read.messages.iter().rfind(|m| m.role == Role::Assistant);
        assert_eq!(
            has_open_call,
            last.is_some_and(|m| m.completed.is_none()),
            "{cut}"
        );
        assert!(states.insert(fingerprint(&*source, WINTER).map(|s| (s.0, s.1))));
    }
    fs::write(&path, &text).unwrap();
    assert_eq!(source.read(WINTER).unwrap(), complete);
    fs::remove_file(&path).unwrap();
    assert!(matches!(source.read(WINTER), Err(ReadError::Gone)));
    assert_eq!(source.list().unwrap().headers.len(), 1);
}

#[test]
fn of_two_rollouts_of_one_session_the_one_with_the_later_record_is_read() {
    let dir = copy_of("codex");
    let path = file(dir.path(), WINTER);
    let archived = dir
        .path()
        .join("archived_sessions")
        .join(path.file_name().unwrap());
    fs::create_dir_all(archived.parent().unwrap()).unwrap();
    let mut records = records(WINTER);
    records.pop();
    write_records(&archived, &records);
    let source = open(dir.path());
    let listing = source.list().unwrap();
    assert_eq!(listing.headers.len(), 2);
    let skipped: Vec<_> = listing
        .skipped
        .iter()
        .map(|s| (&s.path, s.reason))
        .collect();
    assert_eq!(skipped, [(&archived, SkipReason::DuplicateId)]);
    assert_eq!(header(&*source, WINTER).archived, None);
}

#[test]
fn a_changed_title_in_the_index_is_listed() {
    let dir = copy_of("codex");
    let source = open(dir.path());
    let before = source.list().unwrap();
    assert_eq!(before.headers, source.list().unwrap().headers);
    let index = fs::read_dir(dir.path())
        .unwrap()
        .map(|child| child.unwrap().path());
    let index = index
        .filter(|path| path.extension().is_some_and(|e| e == "sqlite"))
        .max();
    let database = rusqlite::Connection::open(index.unwrap()).unwrap();
    let changed = database
        .execute(
            "UPDATE threads SET title = 'Wood', name = NULL WHERE id = ?1",
            [ORCHARD],
        )
        .unwrap();
    assert_eq!(changed, 1);
    assert_eq!(header(&*source, ORCHARD).title.as_deref(), Some("Wood"));
}

#[test]
fn a_file_without_its_first_record_is_read() {
    let dir = copy_of("codex");
    let mut records = records(ORCHARD);
    records.remove(0);
    write_records(&file(dir.path(), ORCHARD), &records);
    let source = open(dir.path());
    assert_eq!(header(&*source, ORCHARD).directory, None);
    let read = source.read(ORCHARD).unwrap();
    assert_eq!(
        (typed_and_answered(&read).len(), read.skipped.len()),
        (5, 0)
    );
    assert!(read.messages.iter().all(|m| !m.copied));
}
