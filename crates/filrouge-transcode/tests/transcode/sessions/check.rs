//! Checks of the contexts of every session.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_engine::restore::{
    Args, Block, Content, MediaSource, Message, Pair, Plan, PlanTurn, Reasoning, Report,
    ResultContent,
};
use filrouge_provider_rules::{Provider, check_history};
use filrouge_transcode::{Context, Format};
use filrouge_types::{Channel, Item, RawJson};
use serde_json::Value;

use crate::plans::rules_provider;

/// Checks that the provider's rules accept the messages, and returns them.
pub(crate) fn assert_accepted(format: Format, context: &Context) -> Value {
    let text = context.messages.as_str();
    if format == Format::Pairs {
        // Pairs keep the recorded spelling of texts, which not every reader accepts.
        return Value::String(RawJson::parse(text).unwrap().as_str().to_owned());
    }
    let messages: Value =
        serde_json::from_str(text).unwrap_or_else(|e| panic!("{format}: {e}: {text}"));
    if let Some(provider) = rules_provider(format) {
        let violations = check_history(provider, &messages);
        assert!(
            violations.is_empty(),
            "{format}: {violations:#?}\n{messages:#}"
        );
    }
    messages
}

/// Checks that the report is complete, and returns the kept seqs.
pub(crate) fn kept_seqs(report: &Report, last_seq: u64) -> BTreeSet<u64> {
    let window = &report.window;
    let dropped: Vec<u64> = report.dropped.iter().map(|d| d.seq).collect();
    assert!(dropped.is_sorted_by(|a, b| a < b), "{report:?}");
    let (Some(first), Some(last)) = (window.first_seq, window.last_seq) else {
        assert_eq!((report.kept, dropped.len()), (0, 0), "{report:?}");
        return BTreeSet::new();
    };
    assert_eq!(last, last_seq);
    assert!(window.cut || first == 1, "{report:?}");
    // The summary can be older than the window.
    let mut kept: BTreeSet<u64> = (first..=last).chain(window.summary_seq).collect();
    for seq in &dropped {
        assert!(kept.remove(seq), "{seq} is outside: {report:?}");
    }
    assert_eq!(report.kept, kept.len(), "{report:?}");
    let adapted: Vec<u64> = report.adapted.iter().map(|a| a.seq).collect();
    assert!(adapted.is_sorted_by(|a, b| a < b), "{report:?}");
    assert!(adapted.iter().all(|seq| kept.contains(seq)), "{report:?}");
    kept
}

/// The marks in a text: numbers between tildes, such as `~12~`.
pub(crate) fn marks(text: &str) -> BTreeSet<&str> {
    let is_number = |s: &&str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    text.split('~').filter(is_number).collect()
}

/// The items that contain each mark.
#[derive(Default)]
pub(crate) struct Marks(BTreeMap<String, BTreeSet<u64>>);

impl Marks {
    /// Records the marks of items. The marks remain after the items are redacted.
    pub(crate) fn record(&mut self, items: &[Item]) {
        for item in items {
            for mark in marks(item.body.parts.as_str()) {
                let seqs = self.0.entry(mark.to_owned()).or_default();
                seqs.insert(item.seq);
            }
        }
    }

    /// Panics if a context shows items that its report lists as left out.
    pub(crate) fn assert_nothing_leaks(&self, context: &Context, kept: &BTreeSet<u64>) {
        for mark in marks(context.messages.as_str()) {
            let seqs = self.0.get(mark);
            let is_kept = seqs.is_some_and(|seqs| seqs.iter().any(|s| kept.contains(s)));
            assert!(is_kept, "~{mark}~ of {seqs:?} is shown: {context:#?}");
        }
    }

    /// Panics unless a context shows the mark of each kept item that is a text, a call or an answer.
    pub(crate) fn assert_nothing_is_lost(
        &self,
        items: &[Item],
        context: &Context,
        kept: &BTreeSet<u64>,
    ) {
        let context_marks = marks(context.messages.as_str());
        // An error is shown as the mark of its turn's end.
        let is_checked = |i: &&Item| {
            let is_text = i.body.channel != Channel::Error;
            kept.contains(&i.seq) && is_text && !i.body.parts.as_str().contains("reasoning")
        };
        let adapted: BTreeSet<u64> = context.report.adapted.iter().map(|a| a.seq).collect();
        for item in items.iter().filter(is_checked) {
            let item_marks = marks(item.body.parts.as_str());
            // If only some of several parts are shown, it is unknown which.
            let parts: Vec<Value> =
                serde_json::from_str(item.body.parts.as_str()).unwrap_or_default();
            let is_partly_shown = adapted.contains(&item.seq) && parts.len() != 1;
            let is_shown = is_partly_shown || item_marks.iter().all(|m| context_marks.contains(m));
            assert!(is_shown, "{item:?} is missing: {context:#?}");
        }
    }
}

/// The tokens of a turn, counted independently by the documented rule.
pub(crate) fn tokens(turn: &PlanTurn) -> u64 {
    let pair_tokens =
        |p: &Pair| 8 + text_tokens(p.question.inner()) + text_tokens(p.answer.inner());
    turn.blocks.iter().map(block_tokens).sum::<u64>() + turn.pair.as_ref().map_or(0, pair_tokens)
}

/// All tokens of a plan.
pub(crate) fn all_tokens(plan: &Plan) -> u64 {
    let turns: u64 = plan.turns.iter().map(tokens).sum();
    turns + plan.summary.as_ref().map_or(0, message_tokens)
}

fn text_tokens(text: &str) -> u64 {
    u64::try_from(text.len().div_ceil(4)).unwrap()
}

fn block_tokens(block: &Block) -> u64 {
    match block {
        Block::Message(message) => message_tokens(message),
        Block::Calls(calls) => {
            let mut sum = reasoning_tokens(&calls.reasoning);
            for call in &calls.calls {
                sum += 8 + text_tokens(&call.name);
                sum += match &call.args {
                    Args::Object(json) | Args::Value(json) => text_tokens(json.as_str()),
                    Args::Text(text) => text_tokens(text.inner()),
                };
                sum += match &call.result.content {
                    ResultContent::Contents(list) => contents_tokens(list),
                    ResultContent::Value(json) => text_tokens(json.as_str()),
                };
            }
            sum
        }
    }
}

fn message_tokens(message: &Message) -> u64 {
    4 + reasoning_tokens(&message.reasoning) + contents_tokens(&message.contents)
}

fn reasoning_tokens(thoughts: &[Reasoning]) -> u64 {
    let thought = |t: &Reasoning| 4 + t.text.as_ref().map_or(0, |t| text_tokens(t.inner()));
    thoughts.iter().map(thought).sum()
}

fn contents_tokens(contents: &[Content]) -> u64 {
    let content = |content: &Content| match content {
        Content::Text(t) | Content::Refusal(t) | Content::Summary(t) => text_tokens(t.inner()),
        Content::Mark(mark) => text_tokens(mark.text()),
        Content::Image(_) => 1500,
        Content::File(file) => match &file.source {
            MediaSource::Base64(data) if file.mime.as_deref() == Some("text/markdown") => {
                text_tokens(&data[..data.len() / 4 * 3])
            }
            _ => 1500,
        },
    };
    contents.iter().map(content).sum()
}

/// The provider that a format's messages are for, with the messages.
pub(crate) fn history(format: Format, messages: Value) -> Option<(Provider, Value)> {
    rules_provider(format).map(|provider| (provider, messages))
}
