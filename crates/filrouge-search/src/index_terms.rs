//! What an index is asked for a regular expression: terms, each of which the folded form of whatever holds the expression
//! meets by one of its literals ([`Spoken::folded`](crate::Spoken::folded)).
//!
//! Characters that stand behind each other make a run, with all ways to write it as long as these are few; what may be
//! anything ends it.

use filrouge_store::text_index::narrows;
use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

use crate::spoken::{SEPARATOR, folded_literal};

/// A run has at most so many ways to be written.
const WAYS: usize = 16;
/// Of a class so many characters, folded, make ways; one of more may be anything. It is not looked through further than
/// the second.
const CHARACTERS: (usize, u32) = (4, 64);
/// Bytes of one way.
const LONG: usize = 64;
/// More terms hardly narrow further.
const TERMS: usize = 8;

/// The literals of which one is there.
pub(crate) type Term = Vec<String>;

/// The terms of an expression, those with the longest literals first; none when nothing is known. Each of their literals
/// narrows.
pub(crate) fn terms(hir: &Hir) -> Vec<Term> {
    terms_of(hir, narrows)
}

/// Those of which every literal is one that `counts`.
pub(crate) fn terms_of(hir: &Hir, counts: fn(&str) -> bool) -> Vec<Term> {
    let mut reading = Reading {
        run: nothing(),
        terms: Vec::new(),
        counts,
    };
    reading.read(hir);
    reading.end_run();
    let mut terms = reading.terms;
    terms.sort_by_key(|term| std::cmp::Reverse(term.iter().map(String::len).min()));
    let mut kept: Vec<Term> = Vec::new();
    for term in terms {
        if !kept.iter().any(|other| is_met_with(&term, other)) {
            kept.push(term);
        }
    }
    kept.truncate(TERMS);
    kept
}

/// Whether whatever meets `other` meets `term`.
fn is_met_with(term: &Term, other: &Term) -> bool {
    let holds = |text: &String| term.iter().any(|literal| text.contains(literal.as_str()));
    other.iter().all(holds)
}

/// What takes no room.
fn nothing() -> Term {
    vec![String::new()]
}

struct Reading {
    /// All ways to write what was read since the last break.
    run: Term,
    terms: Vec<Term>,
    counts: fn(&str) -> bool,
}

impl Reading {
    /// Reads what stands behind what was read.
    fn read(&mut self, hir: &Hir) {
        match hir.kind() {
            HirKind::Capture(capture) => self.read(&capture.sub),
            HirKind::Concat(all) => all.iter().for_each(|one| self.read(one)),
            HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
                Ok(text) => text
                    .chars()
                    .for_each(|c| self.push(alone(c).map(|c| vec![c]))),
                Err(_) => self.end_run(),
            },
            kind => match (ways(hir), kind) {
                (None, HirKind::Repetition(repetition)) => self.repeat(repetition),
                (None, HirKind::Alternation(all)) => self.choose(all),
                (ways, _) => self.push(ways),
            },
        }
    }

    /// Its first times stand right behind what was read, its last ones right before what is read next.
    fn repeat(&mut self, repetition: &Repetition) {
        if repetition.min == 0 {
            self.end_run();
        } else if let Some(ways) = ways(&repetition.sub) {
            let times = (0..repetition.min).take(LONG);
            times.clone().for_each(|_| self.push(Some(ways.clone())));
            self.end_run();
            times.for_each(|_| self.push(Some(ways.clone())));
        } else {
            self.read(&repetition.sub);
            self.end_run();
        }
    }

    /// One of several that have too many ways: the best of each.
    fn choose(&mut self, all: &[Hir]) {
        self.end_run();
        let best = |one| terms_of(one, self.counts).into_iter().next();
        let each: Option<Vec<Term>> = all.iter().map(best).collect();
        if let Some(each) = each {
            self.offer(each.into_iter().flatten().collect());
        }
    }

    fn push(&mut self, ways: Option<Term>) {
        let Some(ways) = ways else {
            return self.end_run();
        };
        match product(&self.run, &ways) {
            Some(run) => self.run = run,
            None => {
                self.end_run();
                self.run = ways;
            }
        }
    }

    fn end_run(&mut self) {
        let run = std::mem::replace(&mut self.run, nothing());
        self.offer(run);
    }

    /// Adds a term if it counts. Of two literals of which one holds the other, the shorter is enough.
    fn offer(&mut self, literals: Term) {
        let mut term = Term::new();
        for literal in &literals {
            let holds = |other: &String| other != literal && literal.contains(other.as_str());
            if !term.contains(literal) && !literals.iter().any(holds) {
                term.push(literal.clone());
            }
        }
        if !term.is_empty() && term.iter().all(|literal| (self.counts)(literal)) {
            self.terms.push(term);
        }
    }
}

/// All that the folded form of a match can be; `None` when that is not known, or too much.
fn ways(hir: &Hir) -> Option<Term> {
    match hir.kind() {
        // What is before and behind stands together.
        HirKind::Empty | HirKind::Look(_) => Some(nothing()),
        HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).ok()?;
            let mut chars = text.chars();
            chars.try_fold(nothing(), |all, c| product(&all, &[alone(c)?]))
        }
        HirKind::Class(class) => of_class(class),
        HirKind::Capture(capture) => ways(&capture.sub),
        HirKind::Concat(all) => all
            .iter()
            .try_fold(nothing(), |ways_, one| product(&ways_, &ways(one)?)),
        HirKind::Alternation(all) => all
            .iter()
            .try_fold(Term::new(), |all, one| united(all, ways(one)?)),
        HirKind::Repetition(repetition) => of_repetition(repetition),
    }
}

fn of_repetition(repetition: &Repetition) -> Option<Term> {
    let once = ways(&repetition.sub)?;
    let (min, mut max) = (repetition.min, repetition.max);
    if once.iter().all(|one| one == " ") {
        // However much white space is one space.
        max = max.map_or(Some(min.max(1)), Some);
    }
    let (max, mut power, mut all) = (max?, nothing(), Term::new());
    for times in 0..=max {
        if times >= min {
            all = united(all, power.clone())?;
        }
        let next = product(&power, &once)?;
        if next == power {
            return united(all, power);
        }
        if times < max {
            power = next;
        }
    }
    Some(all)
}

/// The ways to write a character of a class.
fn of_class(class: &Class) -> Option<Term> {
    let ranges: Vec<(u32, u32)> = match class {
        Class::Unicode(class) => {
            let ranges = class.ranges().iter();
            ranges.map(|r| (r.start().into(), r.end().into())).collect()
        }
        Class::Bytes(class) if class.is_ascii() => {
            let ranges = class.ranges().iter();
            ranges.map(|r| (r.start().into(), r.end().into())).collect()
        }
        Class::Bytes(_) => return None,
    };
    let size = |(first, last): &(u32, u32)| last - first + 1;
    let (most, few) = CHARACTERS;
    if ranges.iter().map(size).sum::<u32>() > few {
        return None;
    }
    let mut all = Term::new();
    for c in ranges.into_iter().flat_map(|(first, last)| first..=last) {
        all = united(all, vec![alone(char::from_u32(c)?)?])?;
    }
    (1..=most).contains(&all.len()).then_some(all)
}

/// The ways of one or the other.
fn united(mut all: Term, more: Term) -> Option<Term> {
    for one in more {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    (all.len() <= WAYS).then_some(all)
}

/// The ways of one behind the other.
fn product(before: &[String], behind: &[String]) -> Option<Term> {
    let mut all = Term::new();
    for first in before {
        let both = behind.iter().map(|second| joined(first, second));
        all = united(all, both.collect())?;
    }
    all.iter().all(|one| one.len() <= LONG).then_some(all)
}

/// One behind the other, with one space where white space meets.
fn joined(first: &str, second: &str) -> String {
    let second = match first.ends_with(' ') {
        true => second.strip_prefix(' ').unwrap_or(second),
        false => second,
    };
    [first, second].concat()
}

/// What a character folds to; `None` where that depends on what stands beside it: characters of some scripts become
/// others with their marks.
fn alone(c: char) -> Option<String> {
    let latin = matches!(c, ..'\u{483}' | '\u{1e00}'..'\u{2000}');
    let sign =
        matches!(c, '\u{2000}'..'\u{20d0}' | '\u{2100}'..'\u{2c00}' | '\u{1f000}'..'\u{1fb00}');
    let ideograph = matches!(c, '\u{3400}'..'\u{4dc0}' | '\u{4e00}'..'\u{a000}');
    if c.is_whitespace() || c == SEPARATOR {
        return Some(" ".to_owned());
    }
    // Not every store takes control characters.
    let plain = (latin || sign || ideograph) && !c.is_control();
    plain.then(|| folded_literal(c.encode_utf8(&mut [0; 4])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pattern: &str) -> Vec<Vec<String>> {
        terms(&regex_syntax::parse(pattern).unwrap())
    }

    #[test]
    fn what_stands_behind_each_other_is_one_term() {
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
                &[&["oe🙂日本", "oe🙂 日本", "☃🙂日本", "☃🙂 日本"], &["ete_"]],
            ),
            (r"xe\u{301}\u{302}y", &[&["xey"]]),
            (r"abか\u{3099}cde日", &[&["cde日"]]),
            (r"(?-u:[xX])yz", &[&["xyz"]]),
            (r"abc\x00def\x1fg", &[&["def g"], &["abc"]]),
        ] {
            assert_eq!(of(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn few_ways_are_all_named() {
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
            assert_eq!(of(pattern), expected, "{pattern}");
        }
        // A run of too many ways ends, and another begins.
        let many = of("[ab][ab]one[ab][ab][ab]two");
        let sizes: Vec<usize> = many.iter().map(Vec::len).collect();
        assert_eq!(sizes, [16, 2]);
        assert!(many[0].contains(&"baoneab".to_owned()) && many[1].contains(&"btwo".to_owned()));
        let long = of(&"0123456789".repeat(20));
        assert!(long.iter().flatten().all(|one| one.len() <= LONG) && !long.is_empty());
    }

    #[test]
    fn what_may_be_anything_is_no_term() {
        for pattern in [r"\w+\.x", "(abc)?", "(abc)*", "abc|..", "[^a]bc", ""] {
            assert_eq!(of(pattern), Vec::<Term>::new(), "{pattern}");
        }
        let words: Vec<String> = (10..60).map(|n| format!("word{n}")).collect();
        assert_eq!(of(&words.join("|")), [words]);
    }

    #[test]
    fn what_is_folded_alone_is_the_same_in_company() {
        let company = [
            "", "a", "é", "か", "ハ", "한", "\u{1112}", "\u{915}", "日", "\u{3099}", "\u{309a}",
            "\u{1161}", "\u{11ab}", "\u{93c}", "\u{338}", "\u{20d0}", "\u{5b0}",
        ];
        // Of ideographs some.
        let some = |code: &u32| !(0x3400..0xa000).contains(code) || code.is_multiple_of(97);
        for c in (0..=0x1_ffff).filter(some).filter_map(char::from_u32) {
            let Some(alone) = alone(c) else { continue };
            for other in company {
                let [before, behind] = [format!("{other}{c}"), format!("{c}{other}")];
                let other = folded_literal(other);
                // A mark that goes leaves what is beside it.
                assert_eq!(
                    folded_literal(&before),
                    format!("{other}{alone}"),
                    "{before:?}"
                );
                assert_eq!(
                    folded_literal(&behind),
                    format!("{alone}{other}"),
                    "{behind:?}"
                );
            }
        }
    }
}
