//! Property tests of random sessions after every item, in every format and window (P5, P7, P9).

use std::collections::BTreeSet;

use filrouge_engine::restore::{Plan, RestoreQuery, Selection, Unanswered};
use filrouge_provider_rules::{Provider, sdk};
use filrouge_transcode::{Format, render};
use filrouge_types::{Item, Turn, TurnStatus, Variant};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;

use crate::sessions::check::{Marks, all_tokens, assert_accepted, history, kept_seqs, tokens};
use crate::sessions::random::{Step, VARIANTS, perform, steps};
use crate::test_session::{TestSession, query};

/// Some queries for one state of a session. They vary with the state.
fn queries(state: usize) -> Vec<RestoreQuery> {
    let pick = |divisor: usize, count: usize| state / divisor % count;
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
fn comparable_turns(plan: &Plan) -> Vec<String> {
    plan.turns.iter().map(|t| format!("{t:?}")).collect()
}

/// A session after one step.
struct State<'a> {
    test: &'a TestSession,
    items: &'a [Item],
    marks: &'a Marks,
    turns: Vec<Turn>,
}

impl State<'_> {
    /// Checks the plans of `queries` and their contexts. The first query is for the complete conversation. Returns the
    /// histories for the providers.
    fn check(&self, queries: &[RestoreQuery]) -> Vec<(Provider, Value)> {
        let mut histories = Vec::new();
        for selection in [Selection::Messages, Selection::Pairs] {
            let query = RestoreQuery {
                selection,
                ..queries[0]
            };
            let complete = self.test.plan(query);
            self.check_repetition(&complete, query);
            histories.extend(self.check_rendered(&complete, selection));
            for query in &queries[1..] {
                let query = RestoreQuery {
                    selection,
                    ..*query
                };
                let plan = self.test.plan(query);
                histories.extend(self.check_rendered(&plan, selection));
                self.check_window(&complete, &plan, query);
            }
        }
        histories
    }

    /// Checks the contexts in every format of this selection, and returns them.
    fn check_rendered(&self, plan: &Plan, selection: Selection) -> Vec<(Provider, Value)> {
        let mut histories = Vec::new();
        let formats = Format::ALL
            .into_iter()
            .filter(|f| query(*f).selection == selection);
        for format in formats {
            let context = render(plan.clone(), format);
            let kept = kept_seqs(&context.report, self.items.len() as u64);
            let messages = assert_accepted(format, &context);
            self.marks.assert_nothing_leaks(&context, &kept);
            self.marks
                .assert_nothing_is_lost(self.items, &context, &kept);
            histories.extend(history(format, messages));
        }
        histories
    }

    /// Checks that a repeated query has the same answer, byte for byte.
    fn check_repetition(&self, complete: &Plan, query: RestoreQuery) {
        let format = match query.selection {
            Selection::Pairs => Format::Pairs,
            Selection::Messages => [Format::Anthropic, Format::Gemini][self.items.len() % 2],
        };
        assert_eq!(
            render(complete.clone(), format),
            self.test.context(format, query)
        );
    }

    /// Checks that a window is the longest suffix of the complete conversation within its bounds.
    fn check_window(&self, complete: &Plan, plan: &Plan, query: RestoreQuery) {
        let window = &plan.dispositions.window;
        assert_eq!(window.tokens, all_tokens(plan));
        assert_eq!(window.turns, plan.turns.len());
        assert!(
            query.max_tokens.is_none_or(|max| window.tokens <= max),
            "{window:?}"
        );
        assert!(
            comparable_turns(complete).ends_with(&comparable_turns(plan)),
            "{query:?}"
        );
        let expected = self.expected_turns(complete, query);
        let is_shortened_by_summary = plan.summary.is_some() && plan.turns.len() <= expected;
        assert!(
            is_shortened_by_summary || plan.turns.len() == expected,
            "{query:?}: {plan:#?}"
        );
    }

    /// The number of turns that a window without a summary shows, counted from the ledger's list of turns.
    fn expected_turns(&self, complete: &Plan, query: RestoreQuery) -> usize {
        let is_counted =
            |status| query.selection == Selection::Messages || status == TurnStatus::Finalized;
        let (mut turn_count, mut sum, mut shown) = (0, 0, 0);
        for turn in &self.turns {
            if turn.replaced_by_turn_id.is_some()
                || turn.deleted_at.is_some()
                || !is_counted(turn.status)
            {
                continue;
            }
            let plan_turn = complete.turns.iter().find(|t| t.turn_id == turn.turn_id);
            sum += plan_turn.map_or(0, tokens);
            if query.last_turns == Some(turn_count) || query.max_tokens.is_some_and(|max| sum > max)
            {
                break;
            }
            turn_count += 1;
            shown += usize::from(plan_turn.is_some());
        }
        shown
    }
}

/// Performs the steps, checks the session after each, and returns the histories.
fn run_steps(steps: &[Step], seed: usize) -> Vec<(Provider, Value)> {
    let test = TestSession::new();
    let mut marks = Marks::default();
    let mut histories = Vec::new();
    let mut previous_items = Vec::new();
    for (mark, step) in steps.iter().enumerate() {
        perform(&test, step, mark);
        let items = test.items();
        if items == previous_items {
            continue;
        }
        marks.record(&items);
        let state = State {
            test: &test,
            items: &items,
            marks: &marks,
            turns: test.turns(),
        };
        histories.extend(state.check(&queries(seed + mark)));
        assert_eq!(test.items(), items);
        previous_items = items;
    }
    let verified = test.verification();
    test.plan(RestoreQuery::default());
    assert_eq!(test.verification(), verified);
    test.assert_intact();
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

/// Histories of sessions that are the same in every run, so that a failure is reproducible.
fn sample(count: usize) -> Vec<(Provider, Value)> {
    let mut runner = TestRunner::deterministic();
    let mut distinct: BTreeSet<(&str, String)> = BTreeSet::new();
    let mut sample = Vec::new();
    for seed in 0.. {
        if sample.len() >= count {
            break;
        }
        let steps = steps(40).new_tree(&mut runner).unwrap().current();
        for (provider, messages) in run_steps(&steps, seed) {
            if distinct.insert((provider.as_str(), messages.to_string())) {
                sample.push((provider, messages));
            }
        }
    }
    sample
}

#[test]
fn the_sdk_types_accept_four_thousand_histories() {
    let histories = sample(4000);
    for provider in Provider::ALL {
        let count = histories.iter().filter(|(p, _)| *p == provider).count();
        assert!(count >= 500, "{provider}: only {count} histories");
    }
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("provider-sdks");
    let violations = sdk::check(&directory, &histories).unwrap();
    let examples: Vec<_> = violations
        .iter()
        .take(5)
        .map(|v| (v, &histories[v.history].1))
        .collect();
    assert!(
        violations.is_empty(),
        "{} of {}: {examples:#?}",
        violations.len(),
        histories.len()
    );
}

#[test]
fn both_languages_are_queried() {
    let variants: Vec<Variant> = (0..2).map(|state| queries(state)[0].variant).collect();
    assert_eq!(variants, VARIANTS);
}
