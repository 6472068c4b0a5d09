//! Tests of the contents of documents, and of their order.

use filrouge_types::{Channel, RawJson, Role, TurnStatus};
use serde_json::json;

use crate::sample::{Conversation, small};

/// Asserts that `words` occur in `text` in this order.
fn assert_order(text: &str, words: &[&str]) {
    let mut from = 0;
    for word in words {
        let at = text[from..].find(word);
        from += at.unwrap_or_else(|| {
            panic!(
                "{word:?} is missing, or not in the expected order, in\n{}",
                &text[from..]
            )
        }) + word.len();
    }
}

#[test]
fn results_are_shown_below_their_calls() {
    let c = small();
    let words = [
        "read_file",
        "src/total.rs",
        "pub fn total",
        "bash",
        "cargo test total",
        "failed",
        "right: 2000",
        "Cause",
    ];
    assert_order(&c.markdown(), &words);
    assert_order(
        &c.html(),
        &[
            "read_file",
            "pub fn total",
            "bash",
            "failed",
            "right: 2000",
            "Cause",
        ],
    );
    assert_eq!(c.markdown().matches("right: 2000").count(), 1);
}

#[test]
fn every_item_has_one_anchor() {
    let c = small();
    let html = c.html();
    for seq in 1..=c.session.last_seq {
        assert_eq!(
            html.matches(&format!("id=\"seq-{seq}\"")).count(),
            1,
            "item {seq}"
        );
        assert!(html.contains(&format!("href=\"#seq-{seq}\"")), "item {seq}");
    }
}

#[test]
fn a_redacted_item_shows_the_time_and_the_reason() {
    let c = small();
    assert_order(
        &c.markdown(),
        &[
            "### 9 · User · Question",
            "**Redacted** on 2026-",
            "asked by the customer",
        ],
    );
    assert_order(
        &c.html(),
        &[
            "id=\"seq-9\"",
            "Redacted",
            "asked by the customer",
            "id=\"seq-10\"",
        ],
    );
}

#[test]
fn the_status_and_replacement_of_turns_are_shown() {
    let c = small();
    let words = [
        "## Turn 3 · failed",
        "Question to a human",
        "Answer of a human",
        "Partial answer",
        "`provider_overloaded`",
        "may be retried",
        "## Turn 4 · cancelled",
        "Cancelled",
        "## Turn 5 · interrupted",
        "Summary",
        "## Turn 6 · finalized · replaced",
        "## Turn 6 · finalized · replacement",
        "telemetry",
        "1e400",
        "\\ufffd",
        "## Outside the turns",
    ];
    assert_order(&c.markdown(), &words);
    assert_order(
        &c.html(),
        &[
            "turn replaced",
            "<details><summary>",
            "Its replacement",
            "telemetry",
            "1e400",
            "ufffd",
        ],
    );
}

#[test]
fn a_second_result_and_a_result_without_a_call_are_shown_at_their_own_position() {
    let mut c = Conversation::new("t");
    c.turn(TurnStatus::Finalized);
    c.ask("q");
    let call = |id: &str| json!({"type": "tool_call", "call_id": id, "name": format!("tool-{id}"), "args": {}});
    let result = |id: &str, text: &str| json!({"type": "tool_result", "call_id": id, "ok": true, "content": text});
    c.add(
        Role::Assistant,
        Channel::ToolCall,
        &json!([call("a"), call("b")]),
    );
    c.add(
        Role::Tool,
        Channel::ToolResult,
        &json!([result("a", "first-a"), result("x", "stray")]),
    );
    c.add(
        Role::Tool,
        Channel::ToolResult,
        &json!([result("a", "second-a")]),
    );
    c.add(
        Role::Tool,
        Channel::ToolResult,
        &json!([result("b", "only-b")]),
    );
    for text in [c.markdown(), c.html()] {
        assert_order(&text, &["tool-a", "first-a", "tool-b", "only-b"]);
        for word in ["first-a", "second-a", "stray", "only-b"] {
            assert!(text.contains(word), "{word:?} is missing in\n{text}");
        }
    }
    let html = c.html();
    for seq in 1..=5 {
        assert_eq!(
            html.matches(&format!("id=\"seq-{seq}\"")).count(),
            1,
            "item {seq}"
        );
    }
}

#[test]
fn unknown_content_is_shown_as_json() {
    let mut c = Conversation::new("t");
    c.turn(TurnStatus::Open);
    c.add_raw(
        Role::Tool,
        Channel::Other("x<y>".into()),
        r#"[{"type":"text","text":5},"bare",{"type":"text","text":"t","extra":[1.50]}]"#,
    );
    let invalid = c.add(Role::Assistant, Channel::Final, &json!([]));
    invalid.body.parts = RawJson::from_checked("{torn");
    for text in [c.markdown(), c.html()] {
        for word in ["1.50", "bare", "torn"] {
            assert!(text.contains(word), "{word:?} is missing in\n{text}");
        }
        assert!(!text.contains("x<y>"), "{text}");
    }
}

#[test]
fn an_empty_conversation_has_a_title() {
    let mut c = Conversation::new("  ");
    c.session.title = None;
    assert!(c.markdown().starts_with("# Untitled conversation\n"));
    assert!(
        c.html()
            .contains("<h1><bdi>Untitled conversation</bdi></h1>")
    );
}

#[test]
fn control_characters_are_visible() {
    let mut c = Conversation::new("a\0b");
    c.turn(TurnStatus::Open);
    c.ask("bell\u{7} esc\u{1b}[2J");
    c.add_raw(
        Role::Tool,
        Channel::Observation,
        r#"[{"type":"text","text":"lone \ud83e nul \u0000"}]"#,
    );
    for text in [c.markdown(), c.html()] {
        assert!(
            !text.chars().any(|ch| ch.is_control() && ch != '\n'),
            "{text:?}"
        );
        for word in ["bell\u{fffd}", "lone \u{fffd} nul \u{fffd}", "a\u{fffd}b"] {
            assert!(text.contains(word), "{word:?} is missing in\n{text}");
        }
    }
}

#[test]
fn direction_overrides_end_with_their_text() {
    let mut c = Conversation::new("a\u{202E}b\u{2067}c");
    c.turn(TurnStatus::Open).application.consultant = Some("x\u{2069}y".into());
    c.ask("q").body.agent = Some("m\u{2066}".into());
    for text in [c.markdown(), c.html()] {
        for word in [
            "a\u{202E}b\u{2067}c\u{2069}\u{202C}",
            "x\u{fffd}y",
            "m\u{2066}\u{2069}",
        ] {
            assert!(text.contains(word), "{word:?} is missing in\n{text}");
        }
    }
}
