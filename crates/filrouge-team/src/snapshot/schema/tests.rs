//! Snapshots in JSON: both forms of speakers, later versions, damaged files.

use serde_json::{Value, json};

use super::*;

fn snapshot(messages: Value) -> Value {
    json!({
        "schemaVersion": "1.0", "teamId": "t", "sessionId": "s",
        "createdAt": "2025-11-25T10:00:00.000Z", "updatedAt": "2025-11-25T11:00:00.000Z",
        "context": {"messages": messages, "teamTask": null, "timestamp": 1_764_068_400_000_i64, "version": 1},
        "metadata": {"messageCount": 1, "summary": "1 messages: hello"}
    })
}

fn one_message(speaker: Value, routing: Value) -> Value {
    json!([{
        "id": "msg-1", "timestamp": 1_764_064_800_000_i64, "speaker": speaker, "content": "hello", "routing": routing
    }])
}

fn read_json(json: &Value) -> Result<SessionSnapshot, Problem> {
    read(json.to_string().as_bytes())
}

fn only_message(json: &Value) -> Message {
    let snapshot = read_json(json).unwrap();
    snapshot.messages[0].clone()
}

#[test]
fn both_forms_of_speakers_are_read_and_the_newer_one_is_written() {
    let new = json!({"id": "max", "name": "max", "displayName": "Max", "type": "ai"});
    let routing = json!({
        "rawNextMarkers": ["NEXT: ann"],
        "resolvedAddressees": [{"identifier": "ann", "memberId": "ann", "memberName": "Ann"},
            {"identifier": "nobody", "memberId": null, "memberName": null}]
    });
    let older_routing = json!({
        "rawNextMarkers": ["NEXT: ann"],
        "resolvedAddressees": [{"identifier": "ann", "roleId": "ann", "roleName": "Ann"}, {"identifier": "nobody"}]
    });
    let read = only_message(&snapshot(one_message(new, routing)));
    for older in [
        json!({"roleId": "max", "roleName": "max", "roleTitle": "Max", "type": "ai"}),
        json!({"roleId": "max", "roleName": "Max", "type": "ai"}),
    ] {
        let older = only_message(&snapshot(one_message(older, older_routing.clone())));
        assert_eq!(older, read);
    }
    assert_eq!((&*read.speaker.id, &*read.speaker.name), ("max", "Max"));
    assert_eq!(read.at.as_millis(), 1_764_064_800_000);

    let at = read.at;
    let snapshot = SessionSnapshot::new("t".into(), "s".into(), at, vec![read], None);
    let mut out = Vec::new();
    write(&snapshot, &mut out).unwrap();
    let text = String::from_utf8(out.clone()).unwrap();
    for word in ["roleId", "roleName", "roleTitle", "todos"] {
        assert!(!text.contains(word), "{text}");
    }
    let written: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(written["schemaVersion"], "1.0");
    assert_eq!(written["metadata"]["lastSpeakerId"], "max");
    assert_eq!(written["metadata"]["messageCount"], 1);
    let speaker = &written["context"]["messages"][0]["speaker"];
    assert_eq!(
        *speaker,
        json!({"id": "max", "name": "Max", "displayName": "Max", "type": "ai"})
    );
    assert_eq!(super::read(&out).unwrap(), snapshot);
}

#[test]
fn unknown_fields_of_version_1_are_ignored() {
    let speaker = json!({"id": "a", "name": "a", "displayName": "A", "type": "human", "mood": [1]});
    let mut json = snapshot(one_message(
        speaker,
        json!({"rawNextMarkers": [], "resolvedAddressees": [], "x": 1}),
    ));
    json["schemaVersion"] = "1.7".into();
    json["context"]["todos"] = json!([{"text": "never stored"}]);
    json["later"] = json!({});
    let read = read_json(&json).unwrap();
    assert_eq!(read.messages.len(), 1);
    let mut out = Vec::new();
    write(&read, &mut out).unwrap();
    assert!(!String::from_utf8(out).unwrap().contains("never stored"));
}

#[test]
fn unreadable_snapshots_are_classified() {
    let speaker = json!({"id": "a", "name": "a", "displayName": "A", "type": "human"});
    let good = snapshot(one_message(speaker.clone(), json!({})));
    let with_value = |path: &str, value: Value| {
        let mut json = good.clone();
        *json.pointer_mut(path).unwrap() = value;
        json
    };
    for version in ["2.0", "2", "10.1", "0.9", ""] {
        let newer = with_value("/schemaVersion", version.into());
        let problem = read_json(&newer).unwrap_err();
        assert_eq!(problem, Problem::Newer(version.to_owned()));
    }
    for (json, code) in [
        (json!({"a": 1}), "snapshot_foreign"),
        (json!([1]), "snapshot_foreign"),
        (with_value("/schemaVersion", 1.into()), "snapshot_foreign"),
        (
            with_value("/context/messages/0/id", "a\nb".into()),
            "snapshot_corrupt",
        ),
        (
            with_value("/context/messages/0/speaker/type", "cat".into()),
            "snapshot_corrupt",
        ),
        (
            with_value("/context/messages/0/timestamp", "yesterday".into()),
            "snapshot_corrupt",
        ),
        (
            with_value("/context/messages/0/speaker", json!({"type": "ai"})),
            "snapshot_corrupt",
        ),
        (
            with_value("/context/messages", json!({})),
            "snapshot_corrupt",
        ),
        (with_value("/teamId", Value::Null), "snapshot_corrupt"),
    ] {
        assert_eq!(read_json(&json).unwrap_err().code(), code, "{json}");
    }
    let duplicates = [&good["context"]["messages"][0]; 2];
    let duplicates = with_value("/context/messages", json!(duplicates));
    assert_eq!(
        read_json(&duplicates).unwrap_err().code(),
        "snapshot_corrupt"
    );

    let text = good.to_string();
    for end in 0..text.len() {
        let problem = read(&text.as_bytes()[..end]).unwrap_err();
        assert_eq!(problem, Problem::Cut, "{end}");
    }
    for (damaged, code) in [
        (text.replacen('{', "[", 1), "snapshot_foreign"),
        (text.replace("hello", "h\u{1}"), "snapshot_foreign"),
        ("\u{0}\u{0}".to_owned(), "snapshot_foreign"),
    ] {
        assert_eq!(read(damaged.as_bytes()).unwrap_err().code(), code);
    }
}
