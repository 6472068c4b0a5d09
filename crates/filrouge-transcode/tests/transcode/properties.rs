//! Property tests of arbitrary plans, in every format.

use filrouge_engine::restore::{Block, Content, Message, Plan, Reasoning, Report, ResultContent};
use filrouge_transcode::{Format, render};
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::Value;

use crate::plans::render_plan;
use crate::random::{BYTES, plans};

/// The summary and the messages of a plan.
fn messages_of(plan: &Plan) -> impl Iterator<Item = &Message> {
    let blocks = plan.turns.iter().flat_map(|t| &t.blocks);
    let messages = blocks.filter_map(|block| match block {
        Block::Message(message) => Some(message),
        Block::Calls(_) => None,
    });
    plan.summary.iter().chain(messages)
}

/// The groups of calls of a plan.
fn call_groups(plan: &Plan) -> impl Iterator<Item = &filrouge_engine::restore::Calls> {
    let blocks = plan.turns.iter().flat_map(|t| &t.blocks);
    blocks.filter_map(|block| match block {
        Block::Calls(calls) => Some(calls),
        Block::Message(_) => None,
    })
}

fn contents(plan: &Plan) -> Vec<&Content> {
    let result_contents =
        call_groups(plan)
            .flat_map(|g| &g.calls)
            .filter_map(|c| match &c.result.content {
                ResultContent::Contents(contents) => Some(contents),
                ResultContent::Value(_) => None,
            });
    messages_of(plan)
        .map(|s| &s.contents)
        .chain(result_contents)
        .flatten()
        .collect()
}

fn reasoning_of(plan: &Plan) -> Vec<&Reasoning> {
    let message_reasoning = messages_of(plan).flat_map(|s| &s.reasoning);
    message_reasoning
        .chain(call_groups(plan).flat_map(|g| &g.reasoning))
        .collect()
}

fn add_strings<'v>(value: &'v Value, strings: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => strings.push(text),
        Value::Array(items) => items.iter().for_each(|item| add_strings(item, strings)),
        Value::Object(members) => members
            .values()
            .for_each(|member| add_strings(member, strings)),
        _ => {}
    }
}

/// The number of items of a plan.
fn count_items(plan: &Plan) -> usize {
    let count_group = |calls: &filrouge_engine::restore::Calls| {
        let answered = calls
            .calls
            .iter()
            .filter(|c| c.result.seq.is_some())
            .count();
        answered + calls.calls.len()
    };
    messages_of(plan).filter(|s| s.seq.is_some()).count()
        + call_groups(plan).map(count_group).sum::<usize>()
        + reasoning_of(plan).len()
}

/// Checks that all texts of the plan are in the messages.
fn assert_texts_are_kept(plan: &Plan, strings: &[&str]) {
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
        let is_kept = strings
            .iter()
            .any(|s| s.contains(words) || s.contains(&text));
        assert!(is_kept, "{text:?} is missing");
    }
}

/// Checks that inline bytes are only in members for bytes, and in no text.
fn assert_bytes_are_not_in_texts(strings: &[&str]) {
    for text in strings.iter().filter(|s| s.contains(BYTES)) {
        let data = text.rsplit(";base64,").next().unwrap();
        let is_url = text.starts_with("data:") || data == *text;
        assert!(
            is_url && data.starts_with(BYTES) && data.len() < BYTES.len() + 5,
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
    let reasoning = reasoning_of(plan);
    let is_dropped = |t: &&Reasoning| {
        report
            .dropped
            .iter()
            .any(|d| d.seq == t.seq && d.reason.starts_with("reasoning_"))
    };
    let dropped = reasoning.iter().copied().filter(is_dropped).count();
    let text = messages.to_string();
    let count_type = |word: &str| text.matches(&format!("\"type\":\"{word}\"")).count();
    match format {
        Format::OpenaiChat | Format::Pairs => assert_eq!(dropped, reasoning.len()),
        Format::OpenaiResponses => assert_eq!(dropped + count_type("reasoning"), reasoning.len()),
        Format::Anthropic => {
            assert_eq!(
                dropped + count_type("thinking") + count_type("redacted_thinking"),
                reasoning.len()
            );
        }
        Format::Gemini => {
            assert!(reasoning.len() - dropped <= text.matches("\"thoughtSignature\":").count());
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
            prop_assert_eq!(report.kept + report.dropped.len(), count_items(&plan));
            assert_reasoning_is_accounted_for(&plan, format, &messages, &report);
            let mut strings = Vec::new();
            add_strings(&messages, &mut strings);
            assert_bytes_are_not_in_texts(&strings);
            if format == Format::Pairs {
                let with_seq = plan.summary.iter().filter(|s| s.seq.is_some()).count();
                prop_assert_eq!(report.kept, with_seq);
                let pairs = plan.turns.iter().filter(|t| t.pair.is_some()).count();
                let summaries = plan.summary.iter().count();
                prop_assert_eq!(messages.as_array().unwrap().len(), summaries + pairs);
            } else {
                assert_texts_are_kept(&plan, &strings);
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
        let count_sent = |messages: &Value| {
            let words = ["image_url", "file", "input_image", "input_file", "image", "document"];
            let text = messages.to_string();
            let typed: usize = words.iter().map(|w| text.matches(&format!("\"type\":\"{w}\"")).count()).sum();
            typed + text.matches("{\"inlineData\":").count() + text.matches("{\"fileData\":").count()
        };
        let contents = contents(&plan);
        let media = contents.iter().filter(|c| matches!(c, Content::Image(_) | Content::File(_))).count();
        for format in Format::ALL.into_iter().filter(|f| *f != Format::Pairs) {
            let (messages, report) = render_plan(&plan, format);
            let has_item_without_seq = messages_of(&plan).any(|s| s.seq.is_none())
                || call_groups(&plan).flat_map(|g| &g.calls).any(|c| c.result.seq.is_none());
            let is_reported = report.adapted.iter().any(|a| {
                ["image_as_text", "file_as_text", "refusal_as_text", "note_as_user_text", "blank_as_text", "media_after_result"]
                    .contains(&a.change)
            });
            prop_assert!(count_sent(&messages) >= media || is_reported || has_item_without_seq, "{format}: {messages:#}");
        }
    }
}
