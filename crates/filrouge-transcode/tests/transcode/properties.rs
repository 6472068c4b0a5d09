//! Properties of any plan, in every format.

use filrouge_engine::restore::{Answer, Block, Content, Plan, Reasoning, Report, Say};
use filrouge_transcode::{Format, render};
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::Value;

use crate::plans::rendered;
use crate::random::{BYTES, plans};

fn says(plan: &Plan) -> impl Iterator<Item = &Say> {
    let blocks = plan.turns.iter().flat_map(|t| &t.blocks);
    let said = blocks.filter_map(|block| match block {
        Block::Say(say) => Some(say),
        Block::Calls(_) => None,
    });
    plan.summary.iter().chain(said)
}

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
        .filter_map(|c| match &c.result.answer {
            Answer::Contents(contents) => Some(contents),
            Answer::Value(_) => None,
        });
    says(plan)
        .map(|s| &s.contents)
        .chain(answers)
        .flatten()
        .collect()
}

fn thoughts(plan: &Plan) -> Vec<&Reasoning> {
    let said = says(plan).flat_map(|s| &s.reasoning);
    said.chain(groups(plan).flat_map(|g| &g.reasoning))
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

/// Checks that everything that was said is present.
fn texts_are_kept(plan: &Plan, found: &[&str]) {
    for content in contents(plan) {
        let text = match content {
            Content::Text(text) | Content::Refusal(text) | Content::Summary(text) => {
                text.to_plain()
            }
            Content::Mark(mark) => mark.text().to_owned(),
            Content::Image(_) | Content::File(_) => continue,
        };
        let blank = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
        let words = match text.trim_end_matches(blank) {
            "" if matches!(content, Content::Summary(_)) => "[Summary of the earlier conversation]",
            "" => "[blank]",
            words => words,
        };
        let kept = found.iter().any(|s| s.contains(words) || s.contains(&text));
        assert!(kept, "{text:?} is lost");
    }
}

/// Checks that inline bytes are only where bytes belong, not in a text.
fn bytes_are_not_in_texts(found: &[&str]) {
    for text in found.iter().filter(|s| s.contains(BYTES)) {
        let data = text.rsplit(";base64,").next().unwrap();
        let url = text.starts_with("data:") || data == *text;
        assert!(
            url && data.starts_with(BYTES) && data.len() < BYTES.len() + 5,
            "{text:?}"
        );
    }
}

/// Checks that all reasoning is shown or reported as dropped.
fn reasoning_is_accounted_for(plan: &Plan, format: Format, made: &Value, report: &Report) {
    let all = thoughts(plan);
    let dropped = |t: &&Reasoning| {
        report
            .dropped
            .iter()
            .any(|d| d.seq == t.seq && d.reason.starts_with("reasoning_"))
    };
    let gone = all.iter().copied().filter(dropped).count();
    let text = made.to_string();
    let shown = |word: &str| text.matches(&format!("\"type\":\"{word}\"")).count();
    match format {
        Format::OpenaiChat | Format::Pairs => assert_eq!(gone, all.len()),
        Format::OpenaiResponses => assert_eq!(gone + shown("reasoning"), all.len()),
        Format::Anthropic => {
            assert_eq!(
                gone + shown("thinking") + shown("redacted_thinking"),
                all.len()
            );
        }
        Format::Gemini => {
            assert!(all.len() - gone <= text.matches("\"thoughtSignature\":").count());
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
            let (made, report) = rendered(&plan, format);
            prop_assert_eq!(report.kept + report.dropped.len(), items(&plan));
            reasoning_is_accounted_for(&plan, format, &made, &report);
            let mut found = Vec::new();
            strings(&made, &mut found);
            bytes_are_not_in_texts(&found);
            if format == Format::Pairs {
                prop_assert_eq!(report.kept, 0);
                let pairs = plan.turns.iter().filter(|t| t.pair.is_some()).count();
                prop_assert_eq!(made.as_array().unwrap().len(), pairs);
            } else {
                texts_are_kept(&plan, &found);
            }
        }
    }

    #[test]
    fn the_same_plan_renders_to_the_same_bytes(plan in plans()) {
        for format in Format::ALL {
            let made = render(plan.clone(), format);
            prop_assert_eq!(made, render(plan.clone(), format));
        }
    }

    #[test]
    fn a_medium_that_is_not_sent_is_reported(plan in plans()) {
        let sent = |made: &Value| {
            let words = ["image_url", "file", "input_image", "input_file", "image", "document"];
            let text = made.to_string();
            let typed: usize = words.iter().map(|w| text.matches(&format!("\"type\":\"{w}\"")).count()).sum();
            typed + text.matches("{\"inlineData\":").count() + text.matches("{\"fileData\":").count()
        };
        let all = contents(&plan);
        let media = all.iter().filter(|c| matches!(c, Content::Image(_) | Content::File(_))).count();
        for format in Format::ALL.into_iter().filter(|f| *f != Format::Pairs) {
            let (made, report) = rendered(&plan, format);
            let quiet = says(&plan).any(|s| s.seq.is_none())
                || groups(&plan).flat_map(|g| &g.calls).any(|c| c.result.seq.is_none());
            let reported = report.adapted.iter().any(|a| {
                ["image_as_text", "file_as_text", "refusal_as_text", "note_as_user_text", "blank_as_text", "media_after_result"]
                    .contains(&a.change)
            });
            prop_assert!(sent(&made) >= media || reported || quiet, "{format}: {made:#}");
        }
    }
}
