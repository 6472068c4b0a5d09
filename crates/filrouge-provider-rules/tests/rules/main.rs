//! Tests of the histories that the rules and the official SDK types accept and refuse.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod accepted;
mod anthropic;
mod closed;
mod gemini;
mod media;
mod openai_chat;
mod openai_responses;
mod sdk;

use std::collections::BTreeSet;

use filrouge_provider_rules::{Provider, check_history, rules};
use serde_json::Value;

/// A minimal history that breaks one rule.
struct Rejected {
    /// The rule's name.
    rule: &'static str,
    /// The path at which the violation is reported.
    at: &'static str,
    history: Value,
    /// The other rules that the history also breaks, because no history breaks `rule` alone.
    other_rules: &'static [&'static str],
}

/// A history that breaks only `rule`, at the path `at`.
fn breaks(rule: &'static str, at: &'static str, history: Value) -> Rejected {
    Rejected {
        rule,
        at,
        history,
        other_rules: &[],
    }
}

impl Rejected {
    fn also(self, other_rules: &'static [&'static str]) -> Self {
        Self {
            other_rules,
            ..self
        }
    }
}

fn rejected(provider: Provider) -> Vec<Rejected> {
    match provider {
        Provider::OpenaiChat => openai_chat::rejected(),
        Provider::OpenaiResponses => openai_responses::rejected(),
        Provider::Anthropic => anthropic::rejected(),
        Provider::Gemini => gemini::rejected(),
    }
}

#[test]
fn every_rejected_history_breaks_the_named_rules_and_no_others() {
    for provider in Provider::ALL {
        for case in rejected(provider) {
            let violations = check_history(provider, &case.history);
            let history = &case.history;
            assert!(
                violations
                    .iter()
                    .any(|violation| violation.rule == case.rule && violation.at == case.at),
                "{provider} {} at {}: {violations:?} in {history}",
                case.rule,
                case.at
            );
            let others: Vec<_> = violations
                .iter()
                .filter(|violation| {
                    violation.rule != case.rule && !case.other_rules.contains(&violation.rule)
                })
                .collect();
            assert!(
                others.is_empty(),
                "{provider} {}: {others:?} in {history}",
                case.rule
            );
            for rule in case.other_rules {
                assert!(
                    violations.iter().any(|violation| violation.rule == *rule),
                    "{provider} {}: {rule} is not broken",
                    case.rule
                );
            }
        }
    }
}

#[test]
fn every_rule_has_a_rejected_history() {
    for provider in Provider::ALL {
        let rules: BTreeSet<_> = rules(provider).into_iter().collect();
        let covered: BTreeSet<_> = rejected(provider).iter().map(|case| case.rule).collect();
        assert_eq!(rules, covered, "{provider}");
    }
}

#[test]
fn rule_names_are_unique() {
    for provider in Provider::ALL {
        let names = rules(provider);
        let distinct: BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{provider}");
    }
}

#[test]
fn provider_names_can_be_parsed() {
    for provider in Provider::ALL {
        assert_eq!(provider.as_str().parse(), Ok(provider));
    }
    let unknown = "openai".parse::<Provider>().unwrap_err();
    assert_eq!(unknown.0, "openai");
}

#[test]
fn a_violation_prints_its_path_rule_and_description() {
    let history = serde_json::json!([{"role": "user", "content": ""}]);
    let violations = check_history(Provider::Anthropic, &history);
    let printed: Vec<_> = violations.iter().map(ToString::to_string).collect();
    assert_eq!(printed, ["messages[0].content: content-empty: is empty"]);
}
