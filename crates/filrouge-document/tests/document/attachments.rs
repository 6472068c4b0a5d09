//! Tests that documents leave out attached data and bookkeeping, and show images, redactions and times.

use filrouge_types::{Channel, Role, TurnStatus};
use serde_json::json;

use crate::elements::check_elements;
use crate::sample::{Conversation, PNG_URL, time_after};

/// A conversation with `length` characters of base64 at every place where a part can contain data.
pub(crate) fn conversation_with_data(length: usize) -> Conversation {
    let data: String = "JVBERi0xLjQK".chars().cycle().take(length).collect();
    let address = format!("data:application/pdf;base64,{data}");
    let mut c = Conversation::new("Attachments");
    c.turn(TurnStatus::Finalized);
    c.add(
        Role::User,
        Channel::Question,
        &json!([
            {"type": "file", "data": data, "mime": "application/pdf"},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": address}},
            {"type": "file", "source": {"type": "base64", "media_type": "application/pdf", "data": data}},
            {"type": "file", "name": "b.pdf", "url": address, "deep": [{"preview": data}]},
            {"type": "text", "text": format!("see {data} and [x]({address})"), "copy": address},
            {"type": "code", "code": format!("x = '{data}'")},
            {"type": "hologram", "kept": "a field", "data": data, "more": [[{"data": address}]]},
        ]),
    );
    let args = json!({"path": "x", "content": data}).to_string();
    c.add(Role::Assistant, Channel::ToolCall, &json!([
        {"type": "tool_call", "call_id": "1", "name": "write", "args": {"body": {"data": data}}},
        {"type": "tool_call", "call_id": "2", "name": "write", "args": args},
    ]));
    c.add(Role::Tool, Channel::ToolResult, &json!([
        {"type": "tool_result", "call_id": "1", "ok": true, "content": data},
        {"type": "tool_result", "call_id": "2", "ok": true, "content": [{"x": address}, {"y": args}]},
    ]));
    c
}

#[test]
fn documents_leave_out_attached_data() {
    let c = conversation_with_data(300_000);
    for text in [c.markdown(), c.html()] {
        assert!(text.len() < 60_000, "{} bytes", text.len());
        let longest = text
            .split(|ch: char| !ch.is_ascii_alphanumeric())
            .map(str::len)
            .max();
        assert!(
            longest < Some(200),
            "the longest run of letters and digits has {longest:?} characters"
        );
        for word in [
            "(base64, 300 kB)",
            "application/pdf, 225 kB",
            "a field",
            "a.pdf",
            "b.pdf",
        ] {
            assert!(text.contains(word), "{word:?} is missing in\n{text}");
        }
    }
    check_elements(&c.html());
}

#[test]
fn images_are_shown_in_every_form_that_providers_use() {
    let data = PNG_URL.split_once(',').unwrap().1;
    let mut c = Conversation::new("t");
    c.turn(TurnStatus::Finalized);
    let image = json!({"type": "image", "data": data, "mimeType": "image/png"});
    c.add(
        Role::User,
        Channel::Question,
        &json!([{"type": "image_url", "data": data, "mime": "image/png"}, image]),
    );
    for content in [json!([image, {"type": "odd"}]), json!(PNG_URL), image] {
        c.add(
            Role::Tool,
            Channel::ToolResult,
            &json!([{"type": "tool_result", "call_id": "c", "ok": true, "content": content}]),
        );
    }
    // Invalid base64 and SVG are not shown as images.
    c.add(
        Role::User,
        Channel::Question,
        &json!([{"type": "image", "data": format!("{data}A"), "mime": "image/png"}, {"type": "image", "data": data, "mime": "image/svg+xml"}]),
    );
    let html = c.html();
    check_elements(&html);
    assert_eq!(html.matches(&format!("<img src=\"{PNG_URL}\"")).count(), 5);
    assert_eq!(html.matches("<img").count(), 5);
    assert_eq!(
        c.markdown()
            .matches("Image: `image/png, 126 bytes`")
            .count(),
        5
    );
}

#[test]
fn short_text_files_are_shown() {
    let mut c = Conversation::new("t");
    c.turn(TurnStatus::Finalized);
    let file =
        |data: &str| json!({"type": "file", "name": "n.txt", "mime": "text/plain", "data": data});
    c.add(
        Role::User,
        Channel::Question,
        &json!([file("c2hvcnQgPG5vdGU+"), file(&"QUJD".repeat(2_000))]),
    );
    let (md, html) = (c.markdown(), c.html());
    assert!(
        md.contains("```\nshort <note>\n```") && md.contains("text/plain, 6 kB"),
        "{md}"
    );
    assert!(
        html.contains("short &lt;note&gt;") && html.contains("text/plain, 6 kB"),
        "{html}"
    );
    assert!(!md.contains("ABCABC") && !html.contains("ABCABC"));
}

#[test]
fn only_notes_without_text_are_bookkeeping() {
    let mut c = Conversation::new("t");
    c.turn(TurnStatus::Finalized);
    for part in [
        json!({"type": "step-finish", "reason": "stop", "cost": 0}),
        json!({"type": "retry", "error": {"message": "rate limit reached"}}),
        json!({"type": "text", "text": "a note"}),
    ] {
        c.add(Role::System, Channel::SystemNote, &json!([part]));
    }
    let html = c.html();
    assert_eq!(html.matches("<details class=\"bookkeeping\">").count(), 1);
    assert!(html.contains("<bdi>step-finish</bdi>"), "{html}");
}

#[test]
fn a_redaction_is_shown_as_a_sentence() {
    let mut c = Conversation::new("t");
    c.add(
        Role::System,
        Channel::Redaction,
        &json!([{"type": "redaction", "seqs": [[3, 4]], "turn_id": "T-1", "by": "ada <x>", "reason": "on request"}]),
    );
    let (md, html) = (c.markdown(), c.html());
    assert!(
        md.contains(
            "ada \\<x\\> redacted items 3 to 4 (turn `T-1`) on 2026-11-21 09:13:21 UTC: on request"
        ),
        "{md}"
    );
    assert!(
        html.contains("<bdi>ada &lt;x&gt;</bdi> redacted items 3 to 4"),
        "{html}"
    );
    assert!(!md.contains("Further") && !html.contains("Further"));
}

#[test]
fn an_imported_turn_shows_its_original_time() {
    let mut c = Conversation::new("t");
    let turn = c.turn(TurnStatus::Finalized);
    turn.finalized_at = Some(turn.created_at);
    c.ask("q").body.occurred_at = Some(time_after(0));
    let (md, html) = (c.markdown(), c.html());
    assert!(
        md.contains("finalized\n\n2026-11-21 09:00:00 UTC\n"),
        "{md}"
    );
    assert!(
        html.contains("title=\"Recorded on 2026-11-21 09:01:00 UTC\"") && !html.contains("0.0 s"),
        "{html}"
    );
    c.answer("a");
    assert!(
        c.markdown()
            .contains("finalized\n\n2026-11-21 09:01:00 UTC\n")
    );
}
