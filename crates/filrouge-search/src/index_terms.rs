//! The index terms of a regular expression: the folded form of every document that matches the expression contains at
//! least one literal of each term ([`SearchDocument::folded`](crate::SearchDocument::folded)).
//!
//! The expression is folded first, so that letters that differ only in case or marks become one letter. `regex-syntax`
//! then extracts, at each position of the expression, the literals with which a match can continue from there.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use filrouge_store::text_index::can_narrow;
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Class, Dot, Hir, HirKind, Repetition};

use crate::search_document::{SEPARATOR, folded_literal};

/// The maximum number of literals of a term, and of characters of a class. A larger class is treated as if it matched
/// any text.
const MAX_LITERALS: usize = 64;
/// The maximum number of bytes of a literal.
const MAX_LITERAL_BYTES: usize = 64;
/// The maximum number of consecutive elements of a concatenation from which the literals at a position are extracted.
const MAX_ELEMENTS_AHEAD: usize = 16;
/// The maximum number of terms: further ones hardly narrow the result.
const MAX_TERMS: usize = 8;

/// A list of literals of which every match contains at least one.
pub(crate) type Term = Vec<String>;

/// Returns the terms of an expression by which an index can narrow a search, those with the longest literals first.
/// Returns none if the expression does not determine any text of its matches.
pub(crate) fn terms(hir: &Hir) -> Vec<Term> {
    terms_of(hir, can_narrow)
}

/// Returns those terms of an expression whose literals all pass `accepts`.
pub(crate) fn terms_of(hir: &Hir, accepts: fn(&str) -> bool) -> Vec<Term> {
    best_terms(&fold_expression(hir), accepts)
}

/// Returns the best terms of a folded expression: at most [`MAX_TERMS`], the longest first, without those that another
/// one implies.
fn best_terms(hir: &Hir, accepts: fn(&str) -> bool) -> Vec<Term> {
    let mut terms = Vec::new();
    collect_terms(hir, accepts, &mut terms);
    terms.sort_by_key(|term| Reverse(term.iter().map(String::len).min()));
    let mut kept: Vec<Term> = Vec::new();
    for term in terms {
        // A term is implied by another one if each literal of the other contains a literal of the term.
        let holds = |text: &String| term.iter().any(|literal| text.contains(literal.as_str()));
        if kept.len() < MAX_TERMS && !kept.iter().any(|other| other.iter().all(holds)) {
            kept.push(term);
        }
    }
    kept
}

/// Adds terms of which every match of a folded expression contains a literal.
fn collect_terms(hir: &Hir, accepts: fn(&str) -> bool, terms: &mut Vec<Term>) {
    terms.extend(prefix_term(hir, accepts));
    match hir.kind() {
        HirKind::Capture(capture) => collect_terms(&capture.sub, accepts, terms),
        HirKind::Repetition(repetition) if repetition.min > 0 => {
            collect_terms(&repetition.sub, accepts, terms);
        }
        HirKind::Concat(all) => {
            for (at, one) in all.iter().enumerate() {
                collect_terms(one, accepts, terms);
                let ahead = all.iter().skip(at).take(MAX_ELEMENTS_AHEAD).cloned();
                terms.extend(prefix_term(&Hir::concat(ahead.collect()), accepts));
            }
        }
        // The best terms of all branches are joined into one term, if every branch has a term.
        HirKind::Alternation(all) => {
            let each = all
                .iter()
                .map(|one| best_terms(one, accepts).into_iter().next());
            let each: Option<Vec<Term>> = each.collect();
            terms.extend(each.map(|each| drop_implied(each.concat())));
        }
        _ => {}
    }
}

/// Returns the literals with which matches begin, as one term, if `accepts` accepts all of them.
fn prefix_term(hir: &Hir, accepts: fn(&str) -> bool) -> Option<Term> {
    let mut extractor = Extractor::new();
    extractor
        .limit_class(MAX_LITERALS)
        .limit_total(MAX_LITERALS)
        .limit_literal_len(MAX_LITERAL_BYTES);
    let prefixes = extractor.extract(hir);
    let text = |literal: &[u8]| {
        let valid_text = literal
            .utf8_chunks()
            .next()
            .map_or("", |chunk| chunk.valid());
        // Any run of white space is one space.
        folded_literal(valid_text)
    };
    let literals = prefixes.literals()?.iter();
    let term = drop_implied(literals.map(|literal| text(literal.as_bytes())).collect());
    (!term.is_empty() && term.iter().all(|literal| accepts(literal))).then_some(term)
}

/// Drops every literal that contains another one: the shorter one is sufficient.
fn drop_implied(literals: Term) -> Term {
    let all: BTreeSet<String> = literals.into_iter().collect();
    let holds = |one: &&String| {
        all.iter()
            .any(|other| other != *one && one.contains(other.as_str()))
    };
    all.iter().filter(|one| !holds(one)).cloned().collect()
}

/// Returns an expression that matches the folded form of every match of `hir`, and possibly more.
fn fold_expression(hir: &Hir) -> Hir {
    match hir.kind() {
        // An assertion is empty, so the text before it and the text after it are adjacent.
        HirKind::Empty | HirKind::Look(_) => Hir::empty(),
        HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
            Ok(text) => Hir::concat(text.chars().map(fold_char).collect()),
            Err(_) => any_text(),
        },
        HirKind::Class(class) => fold_class(class).unwrap_or_else(any_text),
        HirKind::Capture(capture) => fold_expression(&capture.sub),
        HirKind::Concat(all) => Hir::concat(all.iter().map(fold_expression).collect()),
        HirKind::Alternation(all) => Hir::alternation(all.iter().map(fold_expression).collect()),
        HirKind::Repetition(repetition) => fold_repetition(repetition),
    }
}

/// Returns an expression that matches any text.
fn any_text() -> Hir {
    Hir::repetition(Repetition {
        min: 0,
        max: None,
        greedy: true,
        sub: Box::new(Hir::dot(Dot::AnyChar)),
    })
}

fn fold_char(c: char) -> Hir {
    fold_independent_char(c).map_or_else(any_text, |text| Hir::literal(text.into_bytes()))
}

/// Folds a class of characters; `None` if it has too many, or one whose folded form depends on its neighbors.
fn fold_class(class: &Class) -> Option<Hir> {
    let ranges: Vec<(u32, u32)> = match class {
        Class::Unicode(class) => {
            let ranges = class.ranges().iter();
            ranges.map(|r| (r.start().into(), r.end().into())).collect()
        }
        Class::Bytes(class) => {
            let ranges = class.is_ascii().then(|| class.ranges().iter())?;
            ranges.map(|r| (r.start().into(), r.end().into())).collect()
        }
    };
    let chars = ranges.into_iter().flat_map(|(first, last)| first..=last);
    let mut alternatives = BTreeSet::new();
    for (at, c) in chars.enumerate() {
        alternatives
            .insert(fold_independent_char(char::from_u32(c)?).filter(|_| at < MAX_LITERALS)?);
    }
    let alternatives = alternatives
        .into_iter()
        .map(|alternative| Hir::literal(alternative.into_bytes()));
    Some(Hir::alternation(alternatives.collect()))
}

/// Folds a repetition. If the number of repetitions varies, only the first and the last `min` of them are required,
/// with any text between: the first directly follow the text before, and the last directly precede the text after.
fn fold_repetition(repetition: &Repetition) -> Hir {
    let sub = fold_expression(&repetition.sub);
    let times = |min, max| {
        Hir::repetition(Repetition {
            min,
            max,
            greedy: true,
            sub: Box::new(sub.clone()),
        })
    };
    let (min, max) = (repetition.min, repetition.max);
    // Any run of white space is one space.
    if *sub.kind() == *Hir::literal(*b" ").kind() {
        return times(min.min(1), Some(1));
    }
    match max {
        Some(max) if max == min || min == 0 => times(min, Some(max)),
        _ => Hir::concat(vec![
            times(min, Some(min)),
            any_text(),
            times(min, Some(min)),
        ]),
    }
}

/// Returns the folded form of a character; `None` if it may depend on the characters next to it, because characters of
/// some scripts combine with their marks.
fn fold_independent_char(c: char) -> Option<String> {
    let latin = matches!(c, ..'\u{483}' | '\u{1e00}'..'\u{2000}');
    let sign =
        matches!(c, '\u{2000}'..'\u{20d0}' | '\u{2100}'..'\u{2c00}' | '\u{1f000}'..'\u{1fb00}');
    let ideograph = matches!(c, '\u{3400}'..'\u{4dc0}' | '\u{4e00}'..'\u{a000}');
    if c.is_whitespace() || c == SEPARATOR {
        return Some(" ".to_owned());
    }
    // Not every store accepts control characters.
    let is_independent = (latin || sign || ideograph) && !c.is_control();
    is_independent.then(|| folded_literal(c.encode_utf8(&mut [0; 4])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms_of_pattern(pattern: &str) -> Vec<Vec<String>> {
        terms(&regex_syntax::parse(pattern).unwrap())
    }

    #[test]
    fn adjacent_literals_are_one_term() {
        for (pattern, expected) in [
            (
                r"src\/parser\/\w+\.rs",
                &[&["src/parser/"][..], &[".rs"]][..],
            ),
            (r"timeout.{0,20}retry", &[&["timeout"], &["retry"]]),
            (r"fn \w+_parser\(", &[&["_parser("], &["fn "]]),
            (
                r"test \w+::lantern \.\.\. FAILED",
                &[&["::lantern ... failed"], &["test "]],
            ),
            (r"^Err\b: (?m:$)x", &[&["err: x"]]),
            ("a\\s+b\r\n\tc", &[&["a b c"]]),
            (
                r"Été_\d[œ☃]🙂\s*日本",
                &[&["oe🙂 日本", "oe🙂日本", "☃🙂 日本", "☃🙂日本"], &["ete_"]],
            ),
            (r"xe\u{301}\u{302}y", &[&["xey"]]),
            (r"abか\u{3099}cde日", &[&["cde日"]]),
            (r"(?-u:[xX])yz", &[&["xyz"]]),
            (r"abc\x00def\x1fg", &[&["def g"], &["abc"]]),
        ] {
            assert_eq!(terms_of_pattern(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn few_alternatives_are_all_listed() {
        for (pattern, expected) in [
            (
                r"(?i)\bORCHARD (and|or) \w+",
                &[&["orchard and ", "orchard or "][..]][..],
            ),
            (
                r"let (mut )?cinnamon\b",
                &[&["let cinnamon", "let mut cinnamon"]],
            ),
            (r"cat[ab]s?|dog", &[&["cata", "catb", "dog"]]),
            (r"errors?|errores", &[&["error"]]),
            (r"(abc){2}d{1,3}", &[&["abcabcd"]]),
            (r"<(ab)+>x", &[&["ab>x"], &["<ab"]]),
            (r"x(?:\dabc|abcd\d|[0-9]{3}abc)", &[&["abc"]]),
        ] {
            assert_eq!(terms_of_pattern(pattern), expected, "{pattern}");
        }
        // A term that would have too many alternatives ends, and another one begins.
        let many = terms_of_pattern("[ab]{4}one[ab]{4}two");
        assert!(many.iter().all(|term| term.len() <= MAX_LITERALS));
        for word in ["one", "two"] {
            let holds = |term: &Term| term.iter().all(|literal| literal.contains(word));
            assert!(many.iter().any(holds), "{many:?}");
        }
        let long = terms_of_pattern(&"0123456789".repeat(20));
        assert!(
            long.iter()
                .flatten()
                .all(|one| one.len() <= MAX_LITERAL_BYTES)
                && !long.is_empty()
        );
    }

    #[test]
    fn expressions_that_match_anything_have_no_terms() {
        for pattern in [r"\w+\.x", "(abc)?", "(abc)*", "abc|..", "[^a]bc", ""] {
            assert_eq!(terms_of_pattern(pattern), Vec::<Term>::new(), "{pattern}");
        }
        let words: Vec<String> = (10..60).map(|n| format!("word{n}")).collect();
        assert_eq!(terms_of_pattern(&words.join("|")), [words]);
    }

    #[test]
    fn characters_fold_the_same_next_to_others() {
        let neighbors = [
            "", "a", "é", "か", "ハ", "한", "\u{1112}", "\u{915}", "日", "\u{3099}", "\u{309a}",
            "\u{1161}", "\u{11ab}", "\u{93c}", "\u{338}", "\u{20d0}", "\u{5b0}",
        ];
        // Tests only a sample of the ideographs.
        let some = |code: &u32| !(0x3400..0xa000).contains(code) || code.is_multiple_of(97);
        for c in (0..=0x1_ffff).filter(some).filter_map(char::from_u32) {
            let Some(alone) = fold_independent_char(c) else {
                continue;
            };
            for other in neighbors {
                let [before, after] = [format!("{other}{c}"), format!("{c}{other}")];
                let other = folded_literal(other);
                // A mark that folding removes leaves its neighbors unchanged.
                assert_eq!(
                    folded_literal(&before),
                    format!("{other}{alone}"),
                    "{before:?}"
                );
                assert_eq!(
                    folded_literal(&after),
                    format!("{alone}{other}"),
                    "{after:?}"
                );
            }
        }
    }
}
