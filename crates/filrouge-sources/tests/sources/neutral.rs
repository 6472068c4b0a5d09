//! Tests of the neutral form: every kind of part, compactions, reverted messages, and unusable records.

use std::fs;
use std::path::Path;

use filrouge_sources::{Changes, PartKind, TokenRule, Tokens, Tool, ToolStatus};

use crate::{GeneratedTree, fixture, only_source, put, reports};

/// The kinds of all parts of the session.
fn kinds(tree: &GeneratedTree) -> Vec<PartKind> {
    let read = tree.conversation();
    let parts = read.messages.into_iter().flat_map(|m| m.parts);
    parts.map(|part| part.kind).collect()
}

/// A part with these fields, read from a tree with one answer.
fn part(fields: &str) -> PartKind {
    let tree = GeneratedTree::new();
    tree.answer("m1", 1, "");
    tree.part("m1", "p1", fields);
    kinds(&tree).remove(0)
}

/// A tool call in this state, read from a tree.
fn tool(state: &str) -> Tool {
    let fields = format!(r#""type":"tool","callID":"c1","tool":"bash","state":{state}"#);
    match part(&fields) {
        PartKind::Tool(tool) => *tool,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_kind_of_part_is_read() {
    let text = |text: &str, synthetic| PartKind::Text {
        text: text.into(),
        synthetic,
    };
    let plain = part(r#""type":"text","text":"a\nb","metadata":{"x":1}"#);
    assert_eq!(plain, text("a\nb", false));
    assert_eq!(
        part(r#""type":"text","text":"a","synthetic":true"#),
        text("a", true)
    );
    assert_eq!(
        part(r#""type":"text","text":"a","ignored":true"#),
        text("a", true)
    );
    // Invalid Unicode is replaced, and the rest of the text is kept.
    let PartKind::Text { text: replaced, .. } = part(r#""type":"text","text":"\ud800x""#) else {
        panic!("no text");
    };
    assert!(replaced.starts_with('\u{fffd}') && replaced.ends_with('x'));
    for field in ["text", "reasoning"] {
        let read = part(&format!(r#""type":"reasoning","{field}":"hm""#));
        assert_eq!(read, PartKind::Reasoning { text: "hm".into() });
    }
    let file = part(
        r#""type":"file","mime":"image/png","filename":"a.png","url":"data:image/png;base64,AAAA""#,
    );
    let expected = PartKind::File {
        mime: Some("image/png".into()),
        name: Some("a.png".into()),
        url: Some("data:image/png;base64,".into()),
    };
    assert_eq!(file, expected);
    let files = vec!["/a".into(), "/b".into()];
    assert_eq!(
        part(r#""type":"patch","hash":"h","files":["/a","/b"]"#),
        PartKind::Patch { files }
    );
    let compaction = PartKind::Compaction {
        automatic: true,
        summary: None,
    };
    assert_eq!(part(r#""type":"compaction","auto":true"#), compaction);
}

#[test]
fn unexpected_parts_keep_their_original_json() {
    for fields in [
        r#""type":"text","text":5"#,
        r#""type":"reasoning""#,
        r#""type":"patch","files":[1]"#,
        r#""type":"tool","tool":"t","state":{"status":"completed","output":"o"}"#,
        r#""type":"tool","tool":"t","callID":"c","state":{"status":"completed","output":{"a":1}}"#,
        r#""type":"tool","tool":"t","callID":"c","state":{"status":"exploded"}"#,
        r#""type":"tool","tool":"t","callID":"c","state":[]"#,
        r#""type":"step-start","snapshot":"abc""#,
        r#""type":"retry","attempt":1,"time":{"created":9}"#,
        r#""type":"a-new-kind","x":[1, 2]"#,
    ] {
        let PartKind::Other { json, .. } = part(fields) else {
            panic!("{fields}");
        };
        let expected = format!(r#"{{"id":"p1","sessionID":"s1","messageID":"m1",{fields}}}"#);
        assert_eq!(&*json, expected);
    }
}

#[test]
fn tools_are_read_in_every_state() {
    let pending = tool(r#"{"status":"pending","input":{},"raw":""}"#);
    assert_eq!(
        (pending.status, &*pending.input),
        (ToolStatus::Pending, "{}")
    );
    let running = tool(r#"{"status":"running","input":{"a": 1.0},"time":{"start":5}}"#);
    assert_eq!(
        (running.status, &*running.input),
        (ToolStatus::Running, r#"{"a": 1.0}"#)
    );
    let failed = tool(r#"{"status":"error","input":null,"error":"no","time":{"start":5,"end":9}}"#);
    assert_eq!(
        (failed.status, failed.error.as_deref()),
        (ToolStatus::Error, Some("no"))
    );

    let completed = tool(
        r#"{"status":"completed","input":{},"output":"o\n","title":"T","time":{"start":1,"end":2,"compacted":7},"attachments":[],
            "metadata":{"sessionId":"ses_child","filediff":{"file":"/a","before":"","after":"x","additions":3,"deletions":1}}}"#,
    );
    assert_eq!(
        (completed.output.as_deref(), completed.title.as_deref()),
        (Some("o\n"), Some("T"))
    );
    assert_eq!(
        (completed.pruned, completed.child.as_deref()),
        (Some(7), Some("ses_child"))
    );
    let changes = Changes {
        additions: 3,
        deletions: 1,
        files: 1,
    };
    assert_eq!(
        (completed.changes, completed.files),
        (Some(changes), vec!["/a".into()])
    );

    // A field of a tool's own metadata that has another type is ignored.
    let mistyped = tool(
        r#"{"status":"completed","output":"o","metadata":{"sessionId":5,"filediff":"x","filepath":"/f"}}"#,
    );
    assert_eq!(
        (mistyped.child, mistyped.changes, mistyped.files),
        (None, None, vec!["/f".into()])
    );
    let other = tool(r#"{"status":"completed","output":"o","metadata":{"sessionId":"shell-7"}}"#);
    assert_eq!(other.child, None);
}

/// A tree with a question, an answer, a compaction whose part has the additional fields `tail`, and another question.
fn compacted(tail: &str) -> GeneratedTree {
    let tree = GeneratedTree::new();
    tree.user("m1", 1);
    tree.answer("m2", 2, r#","parentID":"m1""#);
    tree.user("m3", 3);
    tree.part(
        "m3",
        "p3",
        &format!(r#""type":"compaction","auto":true{tail}"#),
    );
    tree.answer(
        "m4",
        4,
        r#","parentID":"m3","summary":true,"finish":"stop""#,
    );
    tree.user("m5", 5);
    tree
}

#[test]
fn finished_compactions_are_boundaries() {
    let read = compacted("").conversation();
    let [boundary] = &read.boundaries[..] else {
        panic!("{:?}", read.boundaries);
    };
    assert_eq!(
        (boundary.at, boundary.created, boundary.automatic),
        (2, 4, Some(true))
    );
    assert_eq!(boundary.summary_id.as_deref(), Some("m4"));
    assert!(read.messages[3].summary && !read.messages[1].summary);

    let kept = compacted(r#","tail_start_id":"m2""#).conversation();
    assert_eq!(kept.boundaries[0].at, 1);
    let missing = compacted(r#","tail_start_id":"m0""#).conversation();
    assert_eq!(missing.boundaries[0].at, 2);

    // A compaction that failed or has not ended drops no messages.
    for fields in [
        r#","error":{"name":"APIError","data":{}}"#,
        r#","error":{"name":"MessageAbortedError","data":{}},"finish":"stop""#,
    ] {
        let tree = compacted("");
        tree.answer(
            "m4",
            4,
            &format!(r#","parentID":"m3","summary":true{fields}"#),
        );
        assert_eq!(tree.conversation().boundaries, []);
    }
    let tree = compacted("");
    tree.message(
        "m4",
        "assistant",
        4,
        "",
        r#","parentID":"m3","summary":true"#,
    );
    assert_eq!(tree.conversation().boundaries, []);

    // Before 1.0, a compaction consists only of the summary.
    let tree = GeneratedTree::new();
    tree.user("m1", 1);
    tree.answer("m2", 2, r#","summary":true"#);
    let read = tree.conversation();
    assert_eq!(
        (read.boundaries[0].at, read.boundaries[0].automatic),
        (1, None)
    );
}

#[test]
fn the_genuine_compaction_and_revert_are_read() {
    let source = only_source(&fixture("opencode-json"));
    let read = source.read("ses_41fc9dacbffenl45ixpQMNoe5J").unwrap();
    let [boundary] = &read.boundaries[..] else {
        panic!("{:?}", read.boundaries);
    };
    let first = &read.messages[boundary.at];
    assert!(matches!(
        first.parts[0].kind,
        PartKind::Compaction {
            automatic: true,
            ..
        }
    ));
    assert_eq!(&*first.id, "msg_be036260c0015CjqPqbHBR5awE");
    assert_eq!(
        boundary.summary_id.as_deref(),
        Some("msg_be03626210011BnJCXMZ6MgZtL")
    );

    let read = source.read("ses_3a355860affe2sOwsBl6BIi4TQ").unwrap();
    let at = read.reverted_at.unwrap();
    assert_eq!(&*read.messages[at].id, "msg_c5caa7bce0013y6ZI8NM6d0CYp");
    assert!(at > 0);
    let header = source.list().unwrap().headers[10].clone();
    assert_eq!(&*header.id, "ses_3a355860affe2sOwsBl6BIi4TQ");
    assert!(header.changes.is_some());
}

#[test]
fn each_token_is_counted_once() {
    let raw = r#","tokens":{"input":100,"output":40,"reasoning":10,"cache":{"read":60,"write":5}}"#;
    for (version, rule, input, output) in [
        ("0.5.29", TokenRule::OpencodeInputHoldsCache, 40, 40),
        ("1.1.65", TokenRule::OpencodeOutputHoldsReasoning, 100, 30),
        ("1.18.33", TokenRule::OpencodeApart, 100, 40),
    ] {
        let tree = GeneratedTree::new();
        let session = format!(r#"{{"id":"s1","version":"{version}","time":{{"created":1}}}}"#);
        put(tree.path(), "storage/session/p1/s1.json", &session);
        tree.answer("m1", 1, raw);
        let read = tree.conversation();
        let expected = Tokens {
            input,
            output,
            reasoning: 10,
            cache_read: 60,
            cache_write: 5,
        };
        assert_eq!(
            (read.token_rule, read.messages[0].tokens),
            (rule, Some(expected))
        );
    }
}

#[test]
fn steps_are_summed_if_a_message_records_only_the_last() {
    let token_sums = |tree: &Path| {
        let (mut sum, mut cost) = (Tokens::default(), 0.0);
        for source in filrouge_sources::opencode::open(tree).unwrap() {
            for header in &source.list().unwrap().headers {
                let read = source.read(&header.id).unwrap();
                for message in read.messages {
                    sum.add(&message.tokens.unwrap_or_default());
                    cost += message.cost.unwrap_or(0.0);
                }
            }
        }
        (sum, cost)
    };
    let (sum, cost) = token_sums(&fixture("opencode-json-legacy-whole"));
    let expected = Tokens {
        input: 21_435,
        output: 2_010,
        reasoning: 227,
        cache_read: 80_000,
        cache_write: 0,
    };
    assert_eq!(sum, expected);
    assert!((cost - 0.334_455).abs() < 1e-9, "{cost}");
    // Later versions record the sum in the message itself.
    let tree = GeneratedTree::new();
    let step = r#""type":"step-finish","tokens":{"input":7,"output":3,"reasoning":1,"cache":{"read":5,"write":0}}"#;
    for (version, input) in [("0.5.29", 4), ("1.18.33", 100)] {
        let session = format!(r#"{{"id":"s1","version":"{version}","time":{{"created":1}}}}"#);
        put(tree.path(), "storage/session/p1/s1.json", &session);
        tree.answer(
            "m1",
            1,
            r#","tokens":{"input":100,"output":40,"reasoning":10,"cache":{"read":60,"write":5}}"#,
        );
        tree.part("m1", "p1", step);
        tree.part("m1", "p2", step);
        let tokens = tree.conversation().messages[0].tokens.unwrap();
        assert_eq!(tokens.input, input, "{version}");
    }
}

#[test]
fn errors_models_and_unfinished_messages_are_read() {
    let tree = GeneratedTree::new();
    tree.message(
        "m1",
        "user",
        1,
        "",
        r#","agent":"plan","model":{"providerID":"a","modelID":"b"}"#,
    );
    tree.message("m2", "assistant", 2, "", r#","providerID":"a","modelID":"b","error":{"name":"APIError","data":{"message":"later","isRetryable":true}}"#);
    tree.message("m3", "assistant", 3, "", r#","error":"broken""#);
    let messages = tree.conversation().messages;
    assert_eq!(messages[0].agent.as_deref(), Some("plan"));
    assert_eq!(messages[0].model, messages[1].model);
    assert_eq!(messages[1].model.as_deref(), Some("a/b"));
    let error = messages[1].error.as_ref().unwrap();
    assert_eq!(
        (&*error.name, &*error.message, error.retryable),
        ("APIError", "later", true)
    );
    assert_eq!(&*messages[2].error.as_ref().unwrap().message, "broken");
    // The answer of a killed program has no end.
    assert_eq!(messages[1].completed, None);
}

#[test]
fn messages_are_ordered_by_time_and_parts_by_id_even_if_ids_wrap_around() {
    let tree = GeneratedTree::new();
    tree.user("msg_ffff2", 1);
    tree.user("msg_00001", 2);
    tree.user("msg_b", 3);
    tree.user("msg_a", 3);
    for id in ["prt_0001", "prt_fff2", "prt_fff1"] {
        tree.part("msg_a", id, r#""type":"text","text":"x""#);
    }
    let read = tree.conversation();
    let ids: Vec<&str> = read.messages.iter().map(|m| &*m.id).collect();
    assert_eq!(ids, ["msg_ffff2", "msg_00001", "msg_a", "msg_b"]);
    let parts: Vec<&str> = read.messages[2].parts.iter().map(|p| &*p.id).collect();
    assert_eq!(parts, ["prt_fff1", "prt_fff2", "prt_0001"]);
}

#[test]
fn a_conversation_reports_what_an_import_reports() {
    let tree = GeneratedTree::new();
    tree.user("m1", 1);
    tree.answer("m2", 2, "");
    tree.part("m1", "p1", r#""type":"text","text":"q""#);
    for (path, text) in [
        ("message/s1/x1", ""),
        (
            "message/s1/x2",
            r#"{"id":"x2","role":"user","role":"user","time":{"created":1}}"#,
        ),
        (
            "message/s1/x3",
            r#"{"id":"x3","role":"oracle","time":{"created":1}}"#,
        ),
        (
            "message/s1/x4",
            r#"{"id":"x4","sessionID":"s9","role":"user","time":{"created":1}}"#,
        ),
        ("part/m1/y1", ""),
        ("part/m1/y2", r#"{"id":"y2","type":"text","text":"cut o"#),
        (
            "part/m1/y3",
            r#"{"id":"y3","type":"text","text":"a","text":"b"}"#,
        ),
        (
            "part/m1/y4",
            r#"{"id":"y4","type":"text","unknown":1,"unknown":2}"#,
        ),
        ("part/m1/y5", r#"{"id":"other","type":"text","text":"a"}"#),
        ("part/m1/y6", r#"{"id":7,"type":"text","text":"a"}"#),
        ("part/m1/y7", r#"{"id":"y7","text":"a"}"#),
        ("part/m2/p1", r#"{"id":"p1","type":"text","text":"again"}"#),
    ] {
        put(tree.path(), &format!("storage/{path}.json"), text);
    }
    let deep = format!(
        r#"{{"type":"x","v":{}{}}}"#,
        "[".repeat(500),
        "]".repeat(500)
    );
    put(tree.path(), "storage/part/m1/z.json", &deep);
    fs::write(
        tree.path().join("storage/part/m1/zz.json"),
        b"{\"a\":\"\xff\"}",
    )
    .unwrap();
    let read = tree.conversation();
    assert_eq!(read.messages.len(), 2);
    assert_eq!(read.messages[0].parts.len(), 1);
    let skipped = reports(tree.path(), &read.skipped);
    assert_eq!(skipped, reports(tree.path(), &tree.load().skipped));
    assert_eq!(skipped.len(), 14);
}
