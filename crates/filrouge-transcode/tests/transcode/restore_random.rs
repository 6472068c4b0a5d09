//! Properties of every session, cut after every item, in every format and window (P5, P7, P9).

use std::collections::BTreeSet;

use filrouge_engine::restore::{Plan, RestoreQuery, Selection, Unanswered};
use filrouge_provider_rules::{Provider, sdk};
use filrouge_transcode::{Format, render};
use filrouge_types::{Item, Turn, TurnStatus, Variant};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;

use crate::journal::{TestSession, query};
use crate::journals::check::{Marks, accepted, all_tokens, history, kept, tokens};
use crate::journals::random::{Step, VARIANTS, play, steps};

/// A selection of queries for one state of a session; it varies with the state.
fn questions(state: usize) -> Vec<RestoreQuery> {
    let pick = |n: usize, of: usize| state / n % of;
    let base = RestoreQuery {
        variant: VARIANTS[pick(1, 2)],
        unanswered: [Unanswered::Drop, Unanswered::Error][pick(2, 2)],
        ..RestoreQuery::default()
    };
    let sizes = [1, 5, 9, 18, 40, 90, 200, 2000];
    vec![
        base,
        RestoreQuery {
            last_turns: Some(pick(3, 4) + 1),
            ..base
        },
        RestoreQuery {
            max_tokens: Some(sizes[pick(1, 8)]),
            ..base
        },
        RestoreQuery {
            max_tokens: Some(sizes[pick(5, 8)]),
            last_turns: Some(pick(1, 3) + 1),
            ..base
        },
    ]
}

/// A plan's turns in comparable form.
fn shown(plan: &Plan) -> Vec<String> {
    plan.turns.iter().map(|t| format!("{t:?}")).collect()
}

/// A session at one moment.
struct State<'a> {
    j: &'a TestSession,
    items: &'a [Item],
    marks: &'a Marks,
    turns: Vec<Turn>,
}

impl State<'_> {
    /// Checks queries, the first of which asks for the entire conversation; returns the histories that providers would receive.
    fn check(&self, questions: &[RestoreQuery]) -> Vec<(Provider, Value)> {
        let mut histories = Vec::new();
        for selection in [Selection::Messages, Selection::Pairs] {
            let asked = RestoreQuery {
                selection,
                ..questions[0]
            };
            let whole = self.j.plan(asked);
            self.repeats(&whole, asked);
            histories.extend(self.rendered(&whole, selection));
            for question in &questions[1..] {
                let asked = RestoreQuery {
                    selection,
                    ..*question
                };
                let plan = self.j.plan(asked);
                histories.extend(self.rendered(&plan, selection));
                self.window(&whole, &plan, asked);
            }
        }
        histories
    }

    fn rendered(&self, plan: &Plan, selection: Selection) -> Vec<(Provider, Value)> {
        let mut histories = Vec::new();
        let formats = Format::ALL
            .into_iter()
            .filter(|f| query(*f).selection == selection);
        for format in formats {
            let context = render(plan.clone(), format);
            let kept = kept(&context.report, self.items.len() as u64);
            let messages = accepted(format, &context);
            self.marks.nothing_leaks(&context, &kept);
            self.marks.nothing_is_lost(self.items, &context, &kept);
            histories.extend(history(format, messages));
        }
        histories
    }

    /// The same query has the same answer, byte for byte.
    fn repeats(&self, whole: &Plan, asked: RestoreQuery) {
        let format = match asked.selection {
            Selection::Pairs => Format::Pairs,
            Selection::Messages => [Format::Anthropic, Format::Gemini][self.items.len() % 2],
        };
        assert_eq!(render(whole.clone(), format), self.j.context(format, asked));
    }

    /// A window is the longest end of the entire conversation that fits its bounds.
    fn window(&self, whole: &Plan, plan: &Plan, asked: RestoreQuery) {
        let window = &plan.dispositions.window;
        assert_eq!(window.tokens, all_tokens(plan));
        assert_eq!(window.turns, plan.turns.len());
        assert!(
            asked.max_tokens.is_none_or(|max| window.tokens <= max),
            "{window:?}"
        );
        assert!(shown(whole).ends_with(&shown(plan)), "{asked:?}");
        let expected = self.expected(whole, asked);
        let fewer = plan.summary.is_some() && plan.turns.len() <= expected;
        assert!(
            fewer || plan.turns.len() == expected,
            "{asked:?}: {plan:#?}"
        );
    }

    /// The number of turns that a window without a summary shows, counted from the ledger's list of turns.
    fn expected(&self, whole: &Plan, asked: RestoreQuery) -> usize {
        let counts =
            |status| asked.selection == Selection::Messages || status == TurnStatus::Finalized;
        let (mut counted, mut sum, mut shown) = (0, 0, 0);
        for turn in &self.turns {
            if turn.replaced_by_turn_id.is_some()
                || turn.deleted_at.is_some()
                || !counts(turn.status)
            {
                continue;
            }
            let own = whole.turns.iter().find(|t| t.turn_id == turn.turn_id);
            sum += own.map_or(0, tokens);
            if asked.last_turns == Some(counted) || asked.max_tokens.is_some_and(|max| sum > max) {
                break;
            }
            counted += 1;
            shown += usize::from(own.is_some());
        }
        shown
    }
}

/// Performs the steps and checks the session after each; returns the histories.
fn run_steps(steps: &[Step], seed: usize) -> Vec<(Provider, Value)> {
    let j = TestSession::new();
    let mut marks = Marks::default();
    let mut histories = Vec::new();
    let mut before = Vec::new();
    for (mark, step) in steps.iter().enumerate() {
        play(&j, step, mark);
        let items = j.items();
        if items == before {
            continue;
        }
        marks.note(&items);
        let state = State {
            j: &j,
            items: &items,
            marks: &marks,
            turns: j.turns(),
        };
        histories.extend(state.check(&questions(seed + mark)));
        assert_eq!(j.items(), items);
        before = items;
    }
    let verified = j.verified();
    j.plan(RestoreQuery::default());
    assert_eq!(j.verified(), verified);
    j.intact();
    histories
}

fn config() -> Config {
    Config {
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn providers_accept_every_prefix_of_every_session(
        steps in steps(40),
        seed in 0..1000_usize,
    ) {
        run_steps(&steps, seed);
    }
}

/// The same sessions at every run, so that a failure is reproducible.
fn sample(count: usize) -> Vec<(Provider, Value)> {
    let mut runner = TestRunner::deterministic();
    let mut seen: BTreeSet<(&str, String)> = BTreeSet::new();
    let mut sample = Vec::new();
    for seed in 0.. {
        if sample.len() >= count {
            break;
        }
        let steps = steps(40).new_tree(&mut runner).unwrap().current();
        for (provider, messages) in run_steps(&steps, seed) {
            if seen.insert((provider.as_str(), messages.to_string())) {
                sample.push((provider, messages));
            }
        }
    }
    sample
}

#[test]
fn the_providers_own_types_accept_two_thousand_histories() {
    let histories = sample(4000);
    for provider in Provider::ALL {
        let own = histories.iter().filter(|(p, _)| *p == provider).count();
        assert!(own >= 500, "{provider}: {own}");
    }
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("provider-sdks");
    let violations = sdk::check(&directory, &histories).unwrap();
    let first: Vec<_> = violations
        .iter()
        .take(5)
        .map(|v| (v, &histories[v.history].1))
        .collect();
    assert!(
        violations.is_empty(),
        "{} of {}: {first:#?}",
        violations.len(),
        histories.len()
    );
}

#[test]
fn both_languages_are_queried() {
    let all: Vec<Variant> = (0..2).map(|state| questions(state)[0].variant).collect();
    assert_eq!(all, VARIANTS);
}
