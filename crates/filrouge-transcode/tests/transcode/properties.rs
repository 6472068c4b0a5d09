//! Property tests: what holds for any plan, in every format.

use filrouge_engine::restore::{Block, Content, Plan, Reasoning, Report, ResultContent, Say};
use filrouge_transcode::{Format, render};
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::Value;

use crate::plans::render_plan;
use crate::random::{BYTES, plans};

/// The summary and the texts of a plan.
fn says(plan: &Plan) -> impl Iterator<Item = &Say> {
    let blocks = plan.turns.iter().flat_map(|t| &t.blocks);
    let says = blocks.filter_map(|block| match block {
        Block::Say(say) => Some(say),
        Block::Calls(_) => None,
    });
    plan.summary.iter().chain(says)
}

/// The groups of calls of a plan.
fn groups(plan: &Plan) -> impl Iterator<Item = &filrouge_engine::restore::Calls> {
    let blocks = plan.turns.iter().flat_map(|t| &t.blocks);
    blocks.filter_map(|block| match block {
        Block::Calls(calls) => Some(calls),
        Block::Say(_) => None,
    })
}

fn contents(plan: &Plan) -> Vec<&Content> {
    let answers = groups(plan)
        .flat_map(|g| &g.calls)
        .filter_map(|c| match &c.result.content {
            ResultContent::Contents(contents) => Some(contents),
            ResultContent::Value(_) => None,
        });
    says(plan)
        .map(|s| &s.contents)
        .chain(answers)
        .flatten()
        .collect()
}

fn thoughts(plan: &Plan) -> Vec<&Reasoning> {
    let of_says = says(plan).flat_map(|s| &s.reasoning);
    of_says
        .chain(groups(plan).flat_map(|g| &g.reasoning))
        .collect()
}

fn strings<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(members) => members.values().for_each(|member| strings(member, found)),
        _ => {}
    }
}

/// The number of items of a plan.
fn items(plan: &Plan) -> usize {
    let results = |calls: &filrouge_engine::restore::Calls| {
        let answered = calls
            .calls
            .iter()
            .filter(|c| c.result.seq.is_some())
            .count();
        answered + calls.calls.len()
    };
    says(plan).filter(|s| s.seq.is_some()).count()
        + groups(plan).map(results).sum::<usize>()
        + thoughts(plan).len()
}

/// Checks that all texts of the plan are in the messages.
fn assert_texts_are_kept(plan: &Plan, found: &[&str]) {
    for content in contents(plan) {
        let text = match content {
            Content::Text(text) | Content::Refusal(text) | Content::Summary(text) => {
                text.to_plain()
            }
            Content::Mark(mark) => mark.text().to_owned(),
            Content::Image(_) | Content::File(_) => continue,
        };
        let is_blank = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
        let words = match text.trim_end_matches(is_blank) {
            "" if matches!(content, Content::Summary(_)) => "[Summary of the earlier conversation]",
            "" => "[blank]",
            words => words,
        };
        let kept = found.iter().any(|s| s.contains(words) || s.contains(&text));
        assert!(kept, "{text:?} is missing");
    }
}

/// Checks that inline bytes are only in members for bytes, and in no text.
fn assert_bytes_are_not_in_texts(found: &[&str]) {
    for text in found.iter().filter(|s| s.contains(BYTES)) {
        let data = text.rsplit(";base64,").next().unwrap();
        let url = text.starts_with("data:") || data == *text;
        assert!(
            url && data.starts_with(BYTES) && data.len() < BYTES.len() + 5,
            "{text:?}"
        );
    }
}

/// Checks that all reasoning is in the messages or reported as dropped.
fn assert_reasoning_is_accounted_for(
    plan: &Plan,
    format: Format,
    messages: &Value,
    report: &Report,
) {
    let all = thoughts(plan);
    let is_dropped = |t: &&Reasoning| {
        report
            .dropped
            .iter()
            .any(|d| d.seq == t.seq && d.reason.starts_with("reasoning_"))
    };
    let dropped = all.iter().copied().filter(is_dropped).count();
    let text = messages.to_string();
    let shown = |word: &str| text.matches(&format!("\"type\":\"{word}\"")).count();
    match format {
        Format::OpenaiChat | Format::Pairs => assert_eq!(dropped, all.len()),
        Format::OpenaiResponses => assert_eq!(dropped + shown("reasoning"), all.len()),
        Format::Anthropic => {
            assert_eq!(
                dropped + shown("thinking") + shown("redacted_thinking"),
                all.len()
            );
        }
        Format::Gemini => {
            assert!(all.len() - dropped <= text.matches("\"thoughtSignature\":").count());
        }
    }
}

fn config() -> Config {
    Config {
        failure_persistence: None,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_provider_accepts_any_plan(plan in plans()) {
        for format in Format::ALL {
            let (messages, report) = render_plan(&plan, format);
            prop_assert_eq!(report.kept + report.dropped.len(), items(&plan));
            assert_reasoning_is_accounted_for(&plan, format, &messages, &report);
            let mut found = Vec::new();
            strings(&messages, &mut found);
            assert_bytes_are_not_in_texts(&found);
            if format == Format::Pairs {
                prop_assert_eq!(report.kept, 0);
                let pairs = plan.turns.iter().filter(|t| t.pair.is_some()).count();
                prop_assert_eq!(messages.as_array().unwrap().len(), pairs);
            } else {
                assert_texts_are_kept(&plan, &found);
            }
        }
    }

    #[test]
    fn a_plan_is_always_rendered_to_the_same_bytes(plan in plans()) {
        for format in Format::ALL {
            let messages = render(plan.clone(), format);
            prop_assert_eq!(messages, render(plan.clone(), format));
        }
    }

    #[test]
    fn a_medium_that_is_not_sent_is_reported(plan in plans()) {
        let sent = |messages: &Value| {
            let words = ["image_url", "file", "input_image", "input_file", "image", "document"];
            let text = messages.to_string();
            let typed: usize = words.iter().map(|w| text.matches(&format!("\"type\":\"{w}\"")).count()).sum();
            typed + text.matches("{\"inlineData\":").count() + text.matches("{\"fileData\":").count()
        };
        let all = contents(&plan);
        let media = all.iter().filter(|c| matches!(c, Content::Image(_) | Content::File(_))).count();
        for format in Format::ALL.into_iter().filter(|f| *f != Format::Pairs) {
            let (messages, report) = render_plan(&plan, format);
            let has_item_without_seq = says(&plan).any(|s| s.seq.is_none())
                || groups(&plan).flat_map(|g| &g.calls).any(|c| c.result.seq.is_none());
            let reported = report.adapted.iter().any(|a| {
                ["image_as_text", "file_as_text", "refusal_as_text", "note_as_user_text", "blank_as_text", "media_after_result"]
                    .contains(&a.change)
            });
            prop_assert!(sent(&messages) >= media || reported || has_item_without_seq, "{format}: {messages:#}");
        }
    }
}
