//! Checks that every context of every session must pass.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_engine::restore::{
    Args, Block, Content, MediaSource, Pair, Plan, PlanTurn, Reasoning, Report, ResultContent, Say,
};
use filrouge_provider_rules::{Provider, check_history};
use filrouge_transcode::{Context, Format};
use filrouge_types::{Item, RawJson};
use serde_json::Value;

use crate::plans::rules;

/// Checks that the provider's rules accept the messages, and returns them.
pub(crate) fn assert_accepted(format: Format, context: &Context) -> Value {
    let text = context.messages.as_str();
    if format == Format::Pairs {
        // Pairs keep the recorded spelling of texts, which not every reader accepts.
        return Value::String(RawJson::parse(text).unwrap().as_str().to_owned());
    }
    let messages: Value =
        serde_json::from_str(text).unwrap_or_else(|e| panic!("{format}: {e}: {text}"));
    if let Some(provider) = rules(format) {
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
    let mut kept: BTreeSet<u64> = (first..=last).collect();
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
    let digits = |s: &&str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    text.split('~').filter(digits).collect()
}

/// The items that contain each mark.
#[derive(Default)]
pub(crate) struct Marks(BTreeMap<String, BTreeSet<u64>>);

impl Marks {
    /// Records the marks of items. Marks of items that are redacted later stay.
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
            let shown = seqs.is_some_and(|seqs| seqs.iter().any(|s| kept.contains(s)));
            assert!(shown, "~{mark}~ of {seqs:?} is shown: {context:#?}");
        }
    }

    /// Panics unless a context shows the mark of each kept item that is a text, a call or an answer.
    pub(crate) fn assert_nothing_is_lost(
        &self,
        items: &[Item],
        context: &Context,
        kept: &BTreeSet<u64>,
    ) {
        let found = marks(context.messages.as_str());
        let is_checked =
            |i: &&Item| kept.contains(&i.seq) && !i.body.parts.as_str().contains("reasoning");
        let adapted: BTreeSet<u64> = context.report.adapted.iter().map(|a| a.seq).collect();
        for item in items.iter().filter(is_checked) {
            let own = marks(item.body.parts.as_str());
            // If only some of several parts are shown, it is unknown which.
            let parts: Vec<Value> =
                serde_json::from_str(item.body.parts.as_str()).unwrap_or_default();
            let in_part = adapted.contains(&item.seq) && parts.len() != 1;
            let shown = in_part || own.iter().all(|m| found.contains(m));
            assert!(shown, "{item:?} is missing: {context:#?}");
        }
    }
}

/// The tokens of a turn, counted independently by the documented rule.
pub(crate) fn tokens(turn: &PlanTurn) -> u64 {
    let pair = |p: &Pair| 8 + quarter(p.question.inner()) + quarter(p.answer.inner());
    turn.blocks.iter().map(block).sum::<u64>() + turn.pair.as_ref().map_or(0, pair)
}

/// All tokens of a plan.
pub(crate) fn all_tokens(plan: &Plan) -> u64 {
    let turns: u64 = plan.turns.iter().map(tokens).sum();
    turns + plan.summary.as_ref().map_or(0, say)
}

fn quarter(text: &str) -> u64 {
    u64::try_from(text.len().div_ceil(4)).unwrap()
}

fn block(block: &Block) -> u64 {
    match block {
        Block::Say(block) => say(block),
        Block::Calls(calls) => {
            let mut sum = thoughts(&calls.reasoning);
            for call in &calls.calls {
                sum += 8 + quarter(&call.name);
                sum += match &call.args {
                    Args::Object(json) | Args::Value(json) => quarter(json.as_str()),
                    Args::Text(text) => quarter(text.inner()),
                };
                sum += match &call.result.content {
                    ResultContent::Contents(list) => contents(list),
                    ResultContent::Value(json) => quarter(json.as_str()),
                };
            }
            sum
        }
    }
}

fn say(say: &Say) -> u64 {
    4 + thoughts(&say.reasoning) + contents(&say.contents)
}

fn thoughts(thoughts: &[Reasoning]) -> u64 {
    let thought = |t: &Reasoning| 4 + t.text.as_ref().map_or(0, |t| quarter(t.inner()));
    thoughts.iter().map(thought).sum()
}

fn contents(contents: &[Content]) -> u64 {
    let content = |content: &Content| match content {
        Content::Text(t) | Content::Refusal(t) | Content::Summary(t) => quarter(t.inner()),
        Content::Mark(mark) => quarter(mark.text()),
        Content::Image(_) => 1500,
        Content::File(file) => match &file.source {
            MediaSource::Base64(data) if file.mime.as_deref() == Some("text/markdown") => {
                quarter(&data[..data.len() / 4 * 3])
            }
            _ => 1500,
        },
    };
    contents.iter().map(content).sum()
}

/// The provider that a format's messages are for, with the messages.
pub(crate) fn history(format: Format, messages: Value) -> Option<(Provider, Value)> {
    rules(format).map(|provider| (provider, messages))
}
