//! What every match of a regular expression must hold: runs of characters that stand in JSON as they are.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind};

/// Characters that stand behind each other in whatever matches, each in any case.
pub(crate) type Run = Vec<char>;

/// Runs of which every match holds at least one; `None` when there are none to name.
pub(crate) fn required(hir: &Hir) -> Option<Vec<Run>> {
    let mut reading = Reading::default();
    reading.read(hir);
    reading.end_run();
    reading.best
}

/// Whether a character stands in JSON as itself, unless it is spelled `\u…`. The replacement character does not: it
/// may be what a reader made of something else.
fn stands_as_itself(c: char) -> bool {
    c >= ' ' && !matches!(c, '"' | '\\' | '/' | char::REPLACEMENT_CHARACTER)
}

/// All characters that are the same but for their case (simple folding).
pub(crate) fn cases(c: char) -> Vec<char> {
    let mut class = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
    if class.try_case_fold_simple().is_err() {
        return vec![c];
    }
    let ranges = class.ranges().iter();
    ranges.flat_map(|r| r.start()..=r.end()).collect()
}

#[derive(Default)]
struct Reading {
    run: Run,
    best: Option<Vec<Run>>,
}

impl Reading {
    /// Reads what stands behind what was read.
    fn read(&mut self, hir: &Hir) {
        match hir.kind() {
            // They take no room: what is before and behind stands together.
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
                Ok(text) => text.chars().for_each(|c| self.push(c)),
                Err(_) => self.end_run(),
            },
            HirKind::Class(class) => match one_character(class) {
                Some(c) => self.push(c),
                None => self.end_run(),
            },
            HirKind::Capture(capture) => self.read(&capture.sub),
            HirKind::Concat(all) => all.iter().for_each(|one| self.read(one)),
            HirKind::Repetition(repetition) => {
                self.end_run();
                if repetition.min > 0 {
                    self.offer(required(&repetition.sub));
                }
            }
            HirKind::Alternation(all) => {
                self.end_run();
                let each: Option<Vec<Vec<Run>>> = all.iter().map(required).collect();
                self.offer(each.map(|runs| runs.into_iter().flatten().collect()));
            }
        }
    }

    fn push(&mut self, c: char) {
        if stands_as_itself(c) {
            self.run.push(c);
        } else {
            self.end_run();
        }
    }

    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        self.offer((!run.is_empty()).then(|| vec![run]));
    }

    /// Keeps the better of two: that whose shortest run is longer.
    fn offer(&mut self, runs: Option<Vec<Run>>) {
        let worth = |runs: &Option<Vec<Run>>| runs.as_ref().map_or(0, |r| shortest(r));
        if worth(&runs) > worth(&self.best) {
            self.best = runs;
        }
    }
}

/// How long the shortest of the runs is.
pub(crate) fn shortest(runs: &[Run]) -> usize {
    runs.iter().map(Vec::len).min().unwrap_or(0)
}

/// The character that a class stands for when it is nothing but its cases.
fn one_character(class: &Class) -> Option<char> {
    let Class::Unicode(class) = class else {
        return None;
    };
    let first = class.ranges().first()?.start();
    let few: Vec<char> = class
        .ranges()
        .iter()
        .flat_map(|r| r.start()..=r.end())
        .take(8)
        .collect();
    (few == cases(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pattern: &str) -> Option<Vec<String>> {
        let hir = regex_syntax::parse(pattern).unwrap();
        let runs = required(&hir)?;
        Some(
            runs.into_iter()
                .map(|r| r.into_iter().collect::<String>().to_lowercase())
                .collect(),
        )
    }

    #[test]
    fn the_longest_run_that_every_match_holds() {
        let some = |runs: &[&str]| Some(runs.iter().map(|r| (*r).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(r"ab\d+xyz"), some(&["xyz"]));
        assert_eq!(of(r"^error\b: "), some(&["error: "]));
        assert_eq!(of(r"foo|barb|[x-z]q"), some(&["foo", "barb", "q"]));
        assert_eq!(of(r"foo|\d"), None);
        assert_eq!(of(r"(a(bc))?d"), some(&["d"]));
        assert_eq!(of(r"(?:abc)+"), some(&["abc"]));
        assert_eq!(of(r"a/bcd\\e"), some(&["bcd"]));
        assert_eq!(of(r".*"), None);
    }

    #[test]
    fn cases_of_a_character_are_that_character() {
        assert_eq!(of("(?i)ask_user"), Some(vec!["ask_user".to_owned()]));
        assert_eq!(of("[xX]y"), Some(vec!["xy".to_owned()]));
        assert_eq!(of("[xXz]y"), Some(vec!["y".to_owned()]));
        assert_eq!(cases('k'), ['K', 'k', '\u{212a}']);
        assert_eq!(cases('İ'), ['İ']);
    }
}
