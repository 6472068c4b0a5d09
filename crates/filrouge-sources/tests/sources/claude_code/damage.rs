//! Tests of growing and damaged files, and of files of early versions.

use std::fs::OpenOptions;
use std::io::Write;

use filrouge_sources::{ReadError, SkipReason};

use super::*;
use crate::fingerprint;

#[test]
fn a_file_is_read_while_it_grows() {
    let dir = copy_of("claude-code");
    let path = file(dir.path(), BRUME);
    let text = fs::read(&path).unwrap();
    let source = open(dir.path());
    let complete = source.read(BRUME).unwrap();
    let mut states = BTreeSet::new();
    let mut previous_count = 0;
    for cut in (0..text.len()).step_by(997) {
        fs::write(&path, &text[..cut]).unwrap();
        let Ok(read) = source.read(BRUME) else {
            assert!(cut < 500);
            continue;
        };
        assert!(read.messages.len() >= previous_count, "{cut}");
        previous_count = read.messages.len();
        let torn: Vec<_> = read.skipped.iter().map(|s| s.reason).collect();
        assert!(
            torn.is_empty() || torn == [SkipReason::Torn],
            "{cut}: {torn:?}"
        );
        assert!(states.insert(fingerprint(&*source, BRUME).map(|s| (s.0, s.1))));
    }
    fs::write(&path, &text).unwrap();
    assert_eq!(source.read(BRUME).unwrap(), complete);
    // A new session is listed at once.
    fs::copy(&path, path.with_file_name("new.jsonl")).unwrap();
    assert_eq!(source.list().unwrap().headers.len(), 5);
    fs::remove_file(&path).unwrap();
    assert!(matches!(source.read(BRUME), Err(ReadError::Gone)));
}

fn append(path: &Path, lines: &[&[u8]]) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    for line in lines {
        file.write_all(line).unwrap();
    }
}

#[test]
fn broken_lines_are_skipped_and_reported() {
    let dir = copy_of("claude-code");
    let path = file(dir.path(), BRUME);
    let complete = open(dir.path()).read(BRUME).unwrap();
    let first = fs::read_to_string(&path).unwrap();
    let user = first
        .lines()
        .find(|line| line.contains("\"type\":\"user\""))
        .unwrap();
    append(
        &path,
        &[
            b"garbage\n\n",
            b"{\"type\":\"user\",\0\0\0}\n",
            b"{\"type\":\"user\",\"message\":{\"content\":\"\xff\"}}\n",
            b"{\"type\":\"user\",\"uuid\":\"u-1\"}\n",
            b"{\"type\":\"user\",\"type\":\"user\"}\n",
            b"{\"type\":7}\n[]\n",
            user.as_bytes(),
            b"\n{\"type\":\"moon-phase\",\"x\":1}\n{\"type\":\"moon-phase\"}\n{\"type\":\"tide\"}\n",
            b"{\"type\":\"user\",\"uuid\":\"u-2\",\"message\":{\"content\":\"cut \\ud83d\"}}\n",
            b"{\"type\":\"user\",\"uuid\":\"u-3\",\"mess",
        ],
    );
    let read = open(dir.path()).read(BRUME).unwrap();
    assert_eq!(read.messages[..complete.messages.len()], complete.messages);
    assert!(
        texts(&read)
            .iter()
            .any(|text| text.starts_with("cut \u{fffd}"))
    );
    let mut reasons: Vec<_> = read.skipped.iter().map(|s| s.reason.as_str()).collect();
    reasons.sort();
    assert_eq!(
        reasons,
        [
            "bad_field",
            "bad_field",
            "duplicate_id",
            "duplicate_key",
            "malformed",
            "malformed",
            "not_utf8",
            "torn",
            "torn",
            "unknown_kind",
            "unknown_kind"
        ]
    );
    let details: Vec<_> = read.skipped.iter().map(|s| s.detail.as_str()).collect();
    assert!(
        details.contains(&"2 records of kind \"moon-phase\""),
        "{details:?}"
    );
    assert!(read.skipped.iter().all(|s| s.path == path));
}

#[test]
fn files_that_are_not_sessions_are_reported() {
    let dir = copy_of("claude-code");
    let project = dir.path().join("projects/-tmp-demo-phare");
    fs::write(project.join("empty.jsonl"), "").unwrap();
    fs::write(project.join("noise.jsonl"), "\0\0\0\n{\n").unwrap();
    fs::create_dir_all(dir.path().join("projects/-tmp-copied")).unwrap();
    fs::copy(
        file(dir.path(), LAMP),
        dir.path()
            .join(format!("projects/-tmp-copied/{LAMP}.jsonl")),
    )
    .unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("/etc/hostname", project.join("link.jsonl")).unwrap();
    fs::write(dir.path().join(".credentials.json"), "secret").unwrap();
    fs::write(project.join("notes.txt"), "x").unwrap();
    let listing = open(dir.path()).list().unwrap();
    assert_eq!(listing.headers.len(), 4);
    let mut reasons: Vec<_> = listing.skipped.iter().map(|s| s.reason.as_str()).collect();
    reasons.sort();
    let mut expected = vec!["duplicate_id", "empty", "malformed"];
    if cfg!(unix) {
        expected.push("symlink");
    }
    assert_eq!(reasons, expected);
}

#[test]
fn of_two_files_of_one_session_the_one_with_the_later_record_is_read() {
    let dir = copy_of("claude-code");
    let old = file(dir.path(), LAMP);
    let copied = dir.path().join("projects/-tmp-copied");
    fs::create_dir_all(&copied).unwrap();
    let new = copied.join(format!("{LAMP}.jsonl"));
    fs::copy(&old, &new).unwrap();
    for (grown, unchanged) in [(&new, &old), (&old, &new)] {
        append(
            grown,
            &[fs::read(unchanged)
                .unwrap()
                .split_inclusive(|b| *b == b'\n')
                .next_back()
                .unwrap()],
        );
        let listing = open(dir.path()).list().unwrap();
        assert_eq!(listing.headers.len(), 4);
        let skipped: Vec<_> = listing
            .skipped
            .iter()
            .map(|s| (&s.path, s.reason))
            .collect();
        assert_eq!(skipped, [(unchanged, SkipReason::DuplicateId)]);
        // After blank lines are appended, the other file is the larger one.
        append(unchanged, &[b"\n\n\n"]);
    }
}

#[test]
fn an_agent_whose_id_with_the_parents_prefix_is_too_long_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let line = r#"{"type":"user","uuid":"u","timestamp":"2026-09-12T20:37:51.627Z","message":{"content":"go"}}"#;
    let agent = format!("agent-{}", "a".repeat(194));
    let put = |parent: &str, agent: &str| {
        let path = dir
            .path()
            .join(format!("projects/p/{parent}/subagents/{agent}.jsonl"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, line).unwrap();
        path
    };
    let long_parent = "t".repeat(200);
    put("s", &agent);
    put("s", "agent-b");
    put(&long_parent, "agent-b");
    let too_long = put(&long_parent, &agent);
    let listing = open(dir.path()).list().unwrap();
    let ids: Vec<&str> = listing.headers.iter().map(|h| &*h.id).collect();
    assert_eq!(
        ids,
        [&*agent, "agent-b", &*format!("{long_parent}:agent-b")]
    );
    let skipped: Vec<_> = listing
        .skipped
        .iter()
        .map(|s| (&s.path, s.reason))
        .collect();
    assert_eq!(skipped, [(&too_long, SkipReason::BadName)]);
}

#[test]
fn an_agent_that_appears_later_is_linked_at_the_next_listing() {
    let dir = copy_of("claude-code");
    let path = file(dir.path(), LENS);
    let agents = path.with_extension("").join("subagents");
    let away = dir.path().join("away");
    fs::rename(&agents, &away).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let kept = text
        .lines()
        .filter(|line| !line.contains("\"tool_result\""));
    fs::write(&path, kept.collect::<Vec<_>>().join("\n") + "\n").unwrap();
    let source = open(dir.path());
    let child = || tools(&source.read(LENS).unwrap())[0].child.clone();
    let before = fingerprint(&*source, LENS);
    assert_eq!(child(), None);
    fs::rename(&away, &agents).unwrap();
    // The session's own file does not change.
    source.list().unwrap();
    assert_eq!(child().as_deref(), Some(AGENT));
    assert_ne!(fingerprint(&*source, LENS), before);
}

#[test]
fn copies_in_a_resumed_session_are_marked() {
    let dir = copy_of("claude-code");
    let text = fs::read_to_string(file(dir.path(), BRUME)).unwrap();
    let new = "aaaaaaaa-9666-43fc-bb09-8acbf3d0d778";
    let record = json!({"type": "user", "uuid": "u-9", "sessionId": new, "timestamp": "2026-09-13T20:00:00.000Z", "message": {"role": "user", "content": "et maintenant ?"}});
    fs::write(file(dir.path(), new), format!("{text}{record}\n")).unwrap();
    let source = open(dir.path());
    assert_eq!(header(&*source, new).fork_of.as_deref(), Some(BRUME));
    let read = source.read(new).unwrap();
    let copied: Vec<bool> = read.messages.iter().map(|m| m.copied).collect();
    assert_eq!(copied, [true, true, true, false]);
    // The cost belongs to the other session.
    assert!(read.messages.iter().all(|m| m.cost.is_none()));
}

#[test]
fn files_of_early_versions_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("projects/p");
    fs::create_dir_all(&project).unwrap();
    let time = |s: u32| format!("2025-07-01T10:00:{s:02}.000Z");
    let record = |kind: &str, uuid: &str, s: u32, more: Value| {
        let mut record = json!({"type": kind, "uuid": uuid, "sessionId": "s", "timestamp": time(s), "cwd": "/w", "version": "1.0.30"});
        record
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        record.to_string()
    };
    let answer = |n: u64, content: Value| json!({"costUSD": 0.25, "message": {"id": "m1", "model": "claude-x", "content": [content], "usage": {"input_tokens": 5, "output_tokens": n}}});
    let lines = [
        json!({"type": "summary", "summary": "Of another session", "leafUuid": "elsewhere"})
            .to_string(),
        record(
            "user",
            "u1",
            1,
            json!({"message": {"content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}, {"type": "text", "text": "see"}]}}),
        ),
        record(
            "assistant",
            "a1",
            2,
            answer(1, json!({"type": "text", "text": "one"})),
        ),
        record(
            "assistant",
            "a2",
            3,
            answer(
                40,
                json!({"type": "tool_use", "id": "t1", "name": "Task", "input": {"x": 1.0}}),
            ),
        ),
        record(
            "user",
            "k1",
            4,
            json!({"isSidechain": true, "message": {"content": "side"}}),
        ),
        record(
            "user",
            "u2",
            5,
            json!({"message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "done"}, {"type": "image"}]}]}, "toolUseResult": {"agentId": "77"}}),
        ),
        record(
            "system",
            "y1",
            6,
            json!({"subtype": "microcompact_boundary", "microcompactMetadata": {"compactedToolIds": ["t1"]}}),
        ),
        record(
            "assistant",
            "e1",
            7,
            json!({"isApiErrorMessage": true, "error": "rate_limit", "apiErrorStatus": 429, "message": {"id": "m2", "model": "<synthetic>", "content": [{"type": "text", "text": "limit"}]}}),
        ),
        record(
            "attachment",
            "q1",
            8,
            json!({"attachment": {"type": "queued_command", "prompt": "and this", "commandMode": "prompt"}}),
        ),
        record(
            "system",
            "y2",
            9,
            json!({"subtype": "compact_boundary", "content": "Conversation compacted", "compactMetadata": {"trigger": "auto"}}),
        ),
        json!({"type": "summary", "summary": "See and do", "leafUuid": "a1"}).to_string(),
    ];
    fs::write(project.join("s.jsonl"), lines.join("\n")).unwrap();
    fs::write(
        project.join("agent-77.jsonl"),
        record(
            "user",
            "z1",
            4,
            json!({"isSidechain": true, "message": {"content": "go"}}),
        ),
    )
    .unwrap();
    let source = open(dir.path());
    assert_eq!(header(&*source, "s").title.as_deref(), Some("See and do"));
    assert_eq!(header(&*source, "agent-77").parent_id.as_deref(), Some("s"));
    let read = source.read("s").unwrap();
    assert_eq!(read.skipped, []);
    let ids: Vec<&str> = read.messages.iter().map(|m| &*m.id).collect();
    assert_eq!(ids, ["u1", "m1", "k1", "m2", "q1", "y2"]);
    assert!(
        matches!(&read.messages[0].parts[0].kind, PartKind::File { mime: Some(mime), url: None, .. } if &**mime == "image/png")
    );
    let first = &read.messages[1];
    assert_eq!((first.tokens.unwrap().output, first.cost), (40, Some(0.25)));
    let tool = tools(&read)[0];
    assert_eq!(
        (tool.output.as_deref(), tool.child.as_deref()),
        (Some("done\n[image]"), Some("agent-77"))
    );
    assert!(tool.pruned.is_some());
    assert_eq!(&*tool.input, "{\"x\":1.0}");
    let error = read.messages[3].error.as_ref().unwrap();
    assert_eq!(
        (&*error.name, &*error.message, error.retryable),
        ("rate_limit", "limit", true)
    );
    assert_eq!(read.messages[3].model, None);
    assert_eq!(read.boundaries[0].automatic, Some(true));
}
