//! Checks the index terms of expressions: every text that an expression matches contains an alternative of each of its
//! terms.

use std::borrow::Cow;

use regex_syntax::hir::{Class, Hir, HirKind};

use super::*;
use crate::index_terms::terms_of;

const ATOMS: [&str; 30] = [
    "a", "b", "ab", "K", "é", "e\u{301}", "ß", "ﬁ", "İ", "か", "\u{3099}", "が", "한", "日", "☃",
    " ", "\\n", "\\t", "/", "\"", "\\\\", "\\s", "\\w", ".", "[ab]", "[kK]", "[a-f]", "[^a]",
    "\\b", "^",
];
const OPERATORS: [&str; 8] = ["", "", "", "|", "+", "*", "?", "{2,3}"];

/// Generates an expression of some atoms, in groups.
fn pattern() -> impl Strategy<Value = String> {
    let atom = proptest::sample::select(&ATOMS[..]).prop_map(str::to_owned);
    let deeper = |inner: BoxedStrategy<String>| {
        let element = (
            inner,
            proptest::sample::select(&OPERATORS[..]),
            any::<bool>(),
        );
        let several = proptest::collection::vec(element, 1..5);
        several.prop_map(|all| {
            let mut pattern = String::new();
            for (element, operator, group) in all {
                match group || element.chars().count() > 1 {
                    true => pattern.push_str(&format!("(?:{element}){operator}")),
                    false => pattern.push_str(&format!("{element}{operator}")),
                }
            }
            pattern
        })
    };
    let flags = proptest::sample::select(&["", "(?i)", "(?s)"][..]);
    let deep = deeper(deeper(deeper(atom.boxed()).boxed()).boxed());
    (flags, deep).prop_map(|(flags, pattern)| format!("{flags}{pattern}"))
}

/// Appends a text that an expression matches, without regard to its assertions.
fn push_match(hir: &Hir, dice: &mut Dice, text: &mut String) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(std::str::from_utf8(&literal.0).unwrap()),
        HirKind::Class(Class::Unicode(class)) => {
            let Some(range) = class
                .ranges()
                .get(dice.roll(class.ranges().len().max(1) as u64) as usize)
            else {
                return;
            };
            let (first, last) = (u32::from(range.start()), u32::from(range.end()));
            let c = first + dice.roll(u64::from(last - first) + 1) as u32;
            text.push(char::from_u32(c).unwrap_or(range.start()));
        }
        HirKind::Class(Class::Bytes(_)) => {}
        HirKind::Capture(capture) => push_match(&capture.sub, dice, text),
        HirKind::Concat(all) => all.iter().for_each(|one| push_match(one, dice, text)),
        HirKind::Alternation(all) => {
            push_match(&all[dice.roll(all.len() as u64) as usize], dice, text);
        }
        HirKind::Repetition(repetition) => {
            let more = dice.roll(3) as u32;
            let times = (repetition.min + more).min(repetition.max.unwrap_or(u32::MAX));
            (0..times).for_each(|_| push_match(&repetition.sub, dice, text));
        }
    }
}

/// A document of one text.
fn document_of(field: Field, text: String) -> SearchDocument<'static> {
    let piece = Piece {
        field,
        part: None,
        seq: None,
        tool: None,
        at: None,
        text: Cow::Owned(text),
    };
    SearchDocument {
        id: Cow::Borrowed("m"),
        role: Some(Role::User),
        created: 1,
        seq: None,
        agent: None,
        pieces: vec![piece],
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_text_that_matches_contains_every_term(pattern in pattern(), around in (hostile_text(3), hostile_text(3)), seed in any::<u64>()) {
        let mut parser = regex_syntax::ParserBuilder::new().multi_line(true).build();
        let hir = parser.parse(&pattern).unwrap();
        let regex = regex::RegexBuilder::new(&pattern).multi_line(true).build().unwrap();
        let terms = terms_of(&hir, |literal| !literal.is_empty());
        let mut dice = Dice(seed);
        let mut text = around.0;
        push_match(&hir, &mut dice, &mut text);
        text.push_str(&around.1);
        let json = format!("{{\"q\":{}}}", spell(&text, &mut dice));
        for (field, text) in [(Field::Text, text), (Field::ToolInput, json)] {
            let unescaped = UnescapedJson::new(&text).filter(|_| field.is_json());
            let matches = regex.is_match(&text) || unescaped.is_some_and(|unescaped| regex.is_match(&unescaped.text));
            let folded = document_of(field, text).folded();
            let is_contained = |term: &Vec<String>| term.iter().any(|one| folded.contains(one.as_str()));
            prop_assert!(!matches || terms.iter().all(is_contained), "{:?}: {:?} in {:?}", pattern, terms, folded);
        }
    }
}

/// Shows that the property above is not vacuous: in many cases the text matches and the expression has terms.
#[test]
fn matches_and_terms_are_common() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut dice, mut both) = (Dice(1), 0);
    for _ in 0..200 {
        let pattern = pattern().new_tree(&mut runner).unwrap().current();
        let mut parser = regex_syntax::ParserBuilder::new().multi_line(true).build();
        let hir = parser.parse(&pattern).unwrap();
        let mut text = String::new();
        push_match(&hir, &mut dice, &mut text);
        let regex = regex::RegexBuilder::new(&pattern)
            .multi_line(true)
            .build()
            .unwrap();
        both +=
            usize::from(regex.is_match(&text) && !terms_of(&hir, |one| !one.is_empty()).is_empty());
    }
    assert!(both > 60, "only {both} cases have a match and terms");
}
