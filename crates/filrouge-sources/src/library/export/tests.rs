//! Tests of exported documents.

use std::io::{self, Write};
use std::sync::Arc;

use serde_json::Value;

use super::{ExportError, Form, export};
use crate::library::Library;
use crate::library::samples::{MemorySource, conversation, header, message, part, text, tool};
use crate::{
    Boundary, Header, Message, MessageError, PartKind, Role, SkipReason, Skipped, Tokens, Tool,
    ToolStatus,
};

/// A made-up credential. It is split so that scanners of credentials do not report this file.
const KEY: &str = concat!("AKIA", "Q7RT5VWX2YZ3ABCD");

/// Two turns: the first with a finished call, the second with a running one.
fn library() -> Library {
    let call = Tool {
        title: Some("list files".into()),
        pruned: Some(5),
        ..tool(Some("a.rs\nb.rs"))
    };
    let running = Tool {
        call_id: "call2".into(),
        status: ToolStatus::Running,
        child: Some("child".into()),
        ..tool(None)
    };
    let step = PartKind::Other {
        name: "step-start".into(),
        json: r#"{"type":"step-start","snapshot":"abc"}"#.into(),
    };
    let attached = PartKind::File {
        mime: Some("text/plain".into()),
        name: Some("report.txt".into()),
        url: Some("file:///w/report.txt".into()),
    };
    let mut sample = conversation(vec![
        message(
            "m1",
            Role::User,
            vec![text("p1", "What is here? <b>"), part("p2", attached)],
        ),
        Message {
            tokens: Some(Tokens {
                input: 7,
                ..Tokens::default()
            }),
            ..message(
                "m2",
                Role::Assistant,
                vec![
                    part("p3", step),
                    part(
                        "p4",
                        PartKind::Reasoning {
                            text: "look".into(),
                        },
                    ),
                    part("p5", PartKind::Tool(Box::new(call))),
                    text("p6", "Two files."),
                ],
            )
        },
        message(
            "m3",
            Role::User,
            vec![text("p7", &format!("use {KEY} now"))],
        ),
        Message {
            error: Some(MessageError {
                name: "APIError".into(),
                message: "overloaded: try again".into(),
                retryable: true,
            }),
            ..message(
                "m4",
                Role::Assistant,
                vec![part("p8", PartKind::Tool(Box::new(running)))],
            )
        },
    ]);
    sample.boundaries = vec![Boundary {
        at: 2,
        created: 3,
        automatic: None,
        summary_id: None,
    }];
    let source = MemorySource::default();
    let title = Some(format!("About {KEY}").into());
    source.put(
        Header {
            title,
            ..header("ses", 1_700_000_000_000)
        },
        sample,
    );
    Library::new(vec![Arc::new(source)], 1 << 20)
}

/// The export of the sample session.
fn exported(form: Form, mask: bool) -> String {
    let mut out = Vec::new();
    export(&library(), "ses", form, mask, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn json_contains_everything_in_full() {
    let all: Value = serde_json::from_str(&exported(Form::Json, false)).unwrap();
    assert_eq!(all["session"]["id"], "ses");
    assert_eq!(all["totalMessages"], 4);
    assert_eq!(all["boundaries"][0]["beforeID"], "m3");
    assert_eq!(all["revertedAtID"], Value::Null);
    let messages = all["messages"].as_array().unwrap();
    let parts = |m: usize| messages[m]["parts"].as_array().unwrap();
    let ids: Vec<_> = (0..4)
        .flat_map(parts)
        .map(|p| p["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8"]);
    assert_eq!(
        parts(1)[0]["json"],
        r#"{"type":"step-start","snapshot":"abc"}"#
    );
    assert_eq!(parts(1)[2]["output"], "a.rs\nb.rs");
    assert_eq!(parts(1)[2]["pruned"], 5);
    assert_eq!(parts(0)[1]["files"][0], "file:///w/report.txt");
    assert_eq!(messages[3]["error"], "APIError: overloaded: try again");
    assert!(
        messages
            .iter()
            .all(|m| m.get("cut").is_none() && m.get("before").is_none())
    );
}

#[test]
fn markdown_has_the_form_of_a_ledger_session() {
    let all = exported(Form::Markdown, false);
    let lines: Vec<&str> = all.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(lines[0], format!("# About {KEY}"));
    assert!(
        lines.contains(&"## Turn 1 · finalized") && lines.contains(&"## Turn 2 · failed"),
        "{lines:?}"
    );
    for text in [
        "Two files.",
        "> look",
        "a.rs",
        "overloaded: try again",
        "report.txt",
        "child",
    ] {
        assert!(all.contains(text), "{text} is missing:\n{all}");
    }
    let compacted = all.find("The conversation was compacted").unwrap();
    assert!(all.find("Two files.").unwrap() < compacted);
    assert!(compacted < all.rfind(KEY).unwrap());
}

#[test]
fn html_is_one_page_without_scripts() {
    let all = exported(Form::Html, false);
    assert!(all.starts_with("<!DOCTYPE html>") && all.ends_with("</html>\n"));
    assert!(all.contains("What is here? &lt;b&gt;") && !all.contains("<script"));
}

#[test]
fn credentials_are_masked_in_every_form() {
    for form in [Form::Markdown, Form::Html, Form::Json] {
        assert!(exported(form, false).contains(KEY));
        let masked = exported(form, true);
        assert!(!masked.contains(KEY), "{form:?}");
        assert!(masked.contains("masked:"), "{form:?}");
    }
}

#[test]
fn a_closed_output_is_an_io_error() {
    /// A writer that fails after this many bytes.
    struct Closed(usize);
    impl Write for Closed {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.0.checked_sub(bytes.len()) {
                Some(left) => self.0 = left,
                None => return Err(io::ErrorKind::BrokenPipe.into()),
            }
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for form in [Form::Markdown, Form::Html, Form::Json] {
        for limit in [0, 100, 900] {
            let error = export(&library(), "ses", form, true, &mut Closed(limit)).unwrap_err();
            let ExportError::Io(error) = error else {
                panic!("{error}");
            };
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        }
    }
    let error = export(&library(), "none", Form::Json, true, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, ExportError::Library(error) if error.code() == "session_not_found"));
}

#[test]
fn skipped_records_are_reported_first() {
    for messages in [
        vec![message("m1", Role::User, vec![text("p1", "What is here?")])],
        Vec::new(),
    ] {
        let source = MemorySource::default();
        let mut sample = conversation(messages);
        let torn = std::path::Path::new("/h/msg_torn.json");
        sample.skipped = vec![Skipped::new(torn, SkipReason::Torn, "")];
        source.put(header("ses", 1), sample);
        let library = Library::new(vec![Arc::new(source)], 1 << 20);
        for form in [Form::Markdown, Form::Html] {
            let mut out = Vec::new();
            export(&library, "ses", form, true, &mut out).unwrap();
            let all = String::from_utf8(out).unwrap();
            let notice = all.find("msg_torn.json").unwrap();
            assert!(
                all.find("What is here?").is_none_or(|text| notice < text),
                "{all}"
            );
            assert!(all.contains("left out as"), "{all}");
        }
    }
    assert!(!exported(Form::Markdown, true).contains("left out as"));
}
