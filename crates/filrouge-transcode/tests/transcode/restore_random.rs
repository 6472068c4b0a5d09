//! What must hold for every journal, cut behind every item, in every format and window (P5, P7, P9).

use std::collections::BTreeSet;

use filrouge_engine::restore::{Plan, RestoreQuery, Selection, Unanswered};
use filrouge_provider_rules::{Provider, sdk};
use filrouge_transcode::{Format, render};
use filrouge_types::{Item, Turn, TurnStatus, Variant};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;

use crate::journal::{Journal, query};
use crate::journals::check::{Marks, accepted, all_tokens, history, kept, tokens};
use crate::journals::random::{Step, VARIANTS, play, steps};

/// Which of all possible questions are asked of one state of a journal; varies with the state.
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

/// A plan's turns so that they can be compared.
fn shown(plan: &Plan) -> Vec<String> {
    plan.turns.iter().map(|t| format!("{t:?}")).collect()
}

/// A journal at one moment.
struct State<'a> {
    j: &'a Journal,
    items: &'a [Item],
    marks: &'a Marks,
    turns: Vec<Turn>,
}

impl State<'_> {
    /// Checks questions, of which the first is for the whole conversation; gives what providers would be sent.
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

    /// The same question has the same answer, byte for byte.
    fn repeats(&self, whole: &Plan, asked: RestoreQuery) {
        let format = match asked.selection {
            Selection::Pairs => Format::Pairs,
            Selection::Messages => [Format::Anthropic, Format::Gemini][self.items.len() % 2],
        };
        assert_eq!(render(whole.clone(), format), self.j.context(format, asked));
    }

    /// A window is the end of the whole, as long as its bounds allow, and within them.
    fn window(&self, whole: &Plan, plan: &Plan, asked: RestoreQuery) {
        let window = &plan.fates.window;
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

    /// How many turns of the whole a window without a summary shows, counted from the journal's own list of turns.
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

/// Plays a journal and checks it after every step; gives the histories.
fn journey(steps: &[Step], seed: usize) -> Vec<(Provider, Value)> {
    let j = Journal::new();
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
    fn every_cut_of_every_journal_is_a_history_that_providers_take(
        steps in steps(40),
        seed in 0..1000_usize,
    ) {
        journey(&steps, seed);
    }
}

/// The same journals at every run, so that a failure repeats.
fn sample(count: usize) -> Vec<(Provider, Value)> {
    let mut runner = TestRunner::deterministic();
    let mut seen: BTreeSet<(&str, String)> = BTreeSet::new();
    let mut sample = Vec::new();
    for seed in 0.. {
        if sample.len() >= count {
            break;
        }
        let steps = steps(40).new_tree(&mut runner).unwrap().current();
        for (provider, messages) in journey(&steps, seed) {
            if seen.insert((provider.as_str(), messages.to_string())) {
                sample.push((provider, messages));
            }
        }
    }
    sample
}

#[test]
fn the_providers_own_types_take_two_thousand_of_them() {
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
fn both_languages_are_asked_for() {
    let all: Vec<Variant> = (0..2).map(|state| questions(state)[0].variant).collect();
    assert_eq!(all, VARIANTS);
}
