//! Tests of the rules of every format.

use filrouge_engine::restore::{Block, Content, Mark, Message, Plan, Speaker};
use filrouge_transcode::{Format, render};
use serde_json::json;

use crate::plans::*;

#[test]
fn an_empty_plan_becomes_an_empty_context() {
    for format in Format::ALL {
        let empty = Plan {
            summary: None,
            turns: Vec::new(),
            dispositions: Default::default(),
        };
        let context = render(empty, format);
        assert_eq!(context.messages.as_str(), "[]");
        assert_eq!(context.report.kept, 0);
    }
}

#[test]
fn a_step_without_content_yields_no_message() {
    let empty_step = Block::Message(Message {
        reasoning: vec![
            new_reasoning(anthropic_seal("s"), "t"),
            new_reasoning(openai_seal("rs_1"), ""),
        ],
        ..new_message(Speaker::Assistant, vec![])
    });
    let blocks = vec![user("q"), empty_step, calls(vec![]), user("r")];
    for format in Format::ALL.into_iter().filter(|f| *f != Format::Pairs) {
        let (messages, _, dropped) = render_turn(blocks.clone(), format);
        assert!(!messages.to_string().contains("assistant"), "{messages}");
        assert!(dropped.starts_with(&[
            (2, "reasoning_not_in_format"),
            (3, "reasoning_not_in_format"),
        ]));
    }
}

#[test]
fn a_blank_text_is_reported() {
    let (messages, adapted, _) = render_turn(vec![user("\u{1f}")], Format::Anthropic);
    assert_eq!(messages[0]["content"][0]["text"], "[blank]");
    assert_eq!(adapted, [(1, "blank_as_text")]);
}

#[test]
fn a_summary_is_a_user_message_at_the_start() {
    let summary = new_message(
        Speaker::Assistant,
        vec![Content::Summary(json_text("so\nfar"))],
    );
    let expected = "[Summary of the earlier conversation]\nso\nfar";
    let plan = plan(
        Some(summary),
        vec![turn(1, vec![user("q"), assistant("a")])],
    );
    let in_format = |format| render_plan(&plan, format).0;
    assert_eq!(
        in_format(Format::OpenaiChat)[0],
        json!({"role": "user", "content": expected})
    );
    let part = json!([{"type": "input_text", "text": expected}]);
    assert_eq!(in_format(Format::OpenaiResponses)[0]["content"], part);
    let texts = json!([{"type": "text", "text": expected}, {"type": "text", "text": "q"}]);
    assert_eq!(
        in_format(Format::Anthropic)[0],
        json!({"role": "user", "content": texts})
    );
    let parts = json!([{"text": expected}, {"text": "q"}]);
    assert_eq!(
        in_format(Format::Gemini)[0],
        json!({"role": "user", "parts": parts})
    );
}

#[test]
fn marks_are_assistant_text() {
    for mark in [
        Mark::Interrupted,
        Mark::Cancelled,
        Mark::Failed,
        Mark::Unanswered,
        Mark::Redacted,
    ] {
        let mut marked = new_message(Speaker::Assistant, vec![Content::Mark(mark)]);
        marked.seq = None;
        let blocks = vec![user("q"), Block::Message(marked)];
        for format in Format::ALL.into_iter().filter(|f| *f != Format::Pairs) {
            let (messages, adapted, dropped) = render_turn(blocks.clone(), format);
            assert!(messages[1].to_string().contains(mark.text()), "{messages}");
            assert!(adapted.is_empty() && dropped.is_empty());
        }
    }
}

#[test]
fn pairs_contain_only_the_summary_and_questions_with_answers() {
    let summary = new_message(Speaker::User, vec![Content::Summary(json_text("s"))]);
    let blocks = vec![
        text_with_reasoning(vec![new_reasoning(None, "t")], "a"),
        calls(vec![call("c", "f", vec![])]),
    ];
    let turns = vec![
        pair_turn(1, "q\n", "a\"é"),
        turn(2, blocks),
        pair_turn(3, "r", "b"),
    ];
    let (messages, report) = render_plan(&plan(Some(summary), turns), Format::Pairs);
    assert_eq!(
        messages,
        json!([
            {"summary": "s"},
            {"turn_id": turn(1, vec![]).turn_id.to_string(), "question": "q\n", "answer": "a\"é"},
            {"turn_id": turn(3, vec![]).turn_id.to_string(), "question": "r", "answer": "b"},
        ])
    );
    let dropped: Vec<_> = report.dropped.iter().map(|d| (d.seq, d.reason)).collect();
    let not_in_format = "not_in_format";
    assert_eq!(
        dropped,
        [
            (2, "reasoning_not_in_format"),
            (3, not_in_format),
            (4, not_in_format),
            (5, not_in_format)
        ]
    );
}

#[test]
fn the_context_is_one_json_object() {
    let plan = plan(None, vec![turn(1, vec![user("q")])]);
    let json = serde_json::to_value(render(plan, Format::OpenaiChat)).unwrap();
    assert_eq!(json["messages"], json!([{"role": "user", "content": "q"}]));
    assert_eq!(json["report"]["kept"], 1);
}
