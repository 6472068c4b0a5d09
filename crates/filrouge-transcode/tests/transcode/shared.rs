//! Rules that hold for every format.

use filrouge_engine::restore::{Block, Content, Mark, Plan, Say, Speaker};
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
    let nothing = Block::Say(Say {
        reasoning: vec![thinking(signed("s"), "t"), thinking(openai("rs_1"), "")],
        ..say(Speaker::Assistant, vec![])
    });
    let blocks = vec![user("q"), nothing, calls(vec![]), user("r")];
    for format in Format::ALL.into_iter().filter(|f| *f != Format::Pairs) {
        let (made, _, dropped) = reported(blocks.clone(), format);
        assert!(!made.to_string().contains("assistant"), "{made}");
        assert!(dropped.starts_with(&[
            (2, "reasoning_not_in_format"),
            (3, "reasoning_not_in_format"),
        ]));
    }
}

#[test]
fn a_blank_text_is_reported() {
    let (made, adapted, _) = reported(vec![user("\u{1f}")], Format::Anthropic);
    assert_eq!(made[0]["content"][0]["text"], "[blank]");
    assert_eq!(adapted, [(1, "blank_as_text")]);
}

#[test]
fn a_summary_is_a_user_message_at_the_start() {
    let summary = say(Speaker::Assistant, vec![Content::Summary(token("so\nfar"))]);
    let reported_text = "[Summary of the earlier conversation]\nso\nfar";
    let plan = plan(
        Some(summary),
        vec![turn(1, vec![user("q"), assistant("a")])],
    );
    let of = |format| rendered(&plan, format).0;
    assert_eq!(
        of(Format::OpenaiChat)[0],
        json!({"role": "user", "content": reported_text})
    );
    let part = json!([{"type": "input_text", "text": reported_text}]);
    assert_eq!(of(Format::OpenaiResponses)[0]["content"], part);
    let texts = json!([{"type": "text", "text": reported_text}, {"type": "text", "text": "q"}]);
    assert_eq!(
        of(Format::Anthropic)[0],
        json!({"role": "user", "content": texts})
    );
    let parts = json!([{"text": reported_text}, {"text": "q"}]);
    assert_eq!(
        of(Format::Gemini)[0],
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
    ] {
        let mut marked = say(Speaker::Assistant, vec![Content::Mark(mark)]);
        marked.seq = None;
        let blocks = vec![user("q"), Block::Say(marked)];
        for format in Format::ALL.into_iter().filter(|f| *f != Format::Pairs) {
            let (made, adapted, dropped) = reported(blocks.clone(), format);
            assert!(made[1].to_string().contains(mark.text()), "{made}");
            assert!(adapted.is_empty() && dropped.is_empty());
        }
    }
}

#[test]
fn pairs_contain_only_questions_with_answers() {
    let summary = say(Speaker::User, vec![Content::Summary(token("s"))]);
    let said = vec![
        thought(vec![thinking(None, "t")], "a"),
        calls(vec![call("c", "f", vec![])]),
    ];
    let turns = vec![paired(1, "q\n", "a\"é"), turn(2, said), paired(3, "r", "b")];
    let (made, report) = rendered(&plan(Some(summary), turns), Format::Pairs);
    assert_eq!(
        made,
        json!([
            {"turn_id": turn(1, vec![]).turn_id.to_string(), "question": "q\n", "answer": "a\"é"},
            {"turn_id": turn(3, vec![]).turn_id.to_string(), "question": "r", "answer": "b"},
        ])
    );
    let dropped: Vec<_> = report.dropped.iter().map(|d| (d.seq, d.reason)).collect();
    let not = "not_in_format";
    assert_eq!(
        dropped,
        [
            (1, not),
            (2, "reasoning_not_in_format"),
            (3, not),
            (4, not),
            (5, not)
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
