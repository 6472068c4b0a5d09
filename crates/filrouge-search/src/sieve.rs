//! Which raw records are worth parsing.
//!
//! A record is JSON. Whatever is looked for stands in it as it is, but for `"`, `\`, `/` and control characters, which
//! have escapes of their own, and for what is spelled `\u…`: a record with such spellings passes. JSON within JSON
//! keeps both true, since a backslash is never part of what is looked for. Where texts are compared folded, a record
//! passes also for holding a character that is another spelling of one that is looked for.

use memchr::memmem::Finder;

use crate::literals::{Run, cases};
use crate::needle::Needle;
use crate::spellings::Spellings;

/// Says of a record whether it may hold what is looked for; errs only by saying yes.
pub(crate) struct Sieve {
    /// Any of them is enough; `None`: everything passes.
    needles: Option<Vec<Needle>>,
    /// The characters of the needles beyond ASCII, in every case and in order.
    wide: Vec<u32>,
    /// Where texts are compared folded.
    spellings: Option<Spellings>,
    escape: Finder<'static>,
}

impl Sieve {
    /// Of runs of which what is looked for holds at least one; `None` when nothing is known. If `folded` says so, they
    /// are folded, and so are the texts they are looked for in.
    pub(crate) fn new(runs: Option<&[Run]>, folded: bool) -> Self {
        let chars = runs.unwrap_or_default().iter().flatten();
        let wide = chars.flat_map(|c| cases(*c)).filter(|c| !c.is_ascii());
        let mut wide: Vec<u32> = wide.map(u32::from).collect();
        wide.sort_unstable();
        Self {
            needles: runs.map(|runs| runs.iter().map(Needle::new).collect()),
            wide,
            spellings: runs.filter(|_| folded).map(Spellings::of),
            escape: Finder::new(b"\\u"),
        }
    }

    pub(crate) fn may_hold(&self, record: &[u8]) -> bool {
        let Some(needles) = &self.needles else {
            return true;
        };
        needles.iter().any(|needle| needle.is_in(record))
            || self.is_escaped(record)
            || self.spellings.as_ref().is_some_and(|s| s.is_in(record))
    }

    /// Whether characters that could be looked for are spelled `\u…`. Control characters most often are, and never
    /// looked for.
    fn is_escaped(&self, record: &[u8]) -> bool {
        let mut places = self.escape.find_iter(record);
        places.any(|at| match record.get(at + 2..at + 6).and_then(code) {
            None | Some(0x20..=0x7f) => true,
            Some(0..0x20) => false,
            // Half of a character.
            Some(0xd800..0xe000) => self.any(|code| code > 0xffff),
            Some(code) => {
                let other = self.spellings.as_ref();
                self.wide.binary_search(&code).is_ok() || other.is_some_and(|s| s.has(code))
            }
        })
    }

    fn any(&self, is: fn(u32) -> bool) -> bool {
        let other = self.spellings.iter().flat_map(Spellings::codes);
        other.chain(self.wide.iter().copied()).any(is)
    }
}

fn code(digits: &[u8]) -> Option<u32> {
    let digit = |code: u32, d: &u8| Some(code * 16 + char::from(*d).to_digit(16)?);
    digits.iter().try_fold(0, digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_hold(run: &str, record: &str) -> bool {
        let runs = [run.chars().collect()];
        Sieve::new(Some(&runs), false).may_hold(record.as_bytes())
    }

    fn may_hold_folded(run: &str, record: &str) -> bool {
        let runs = [run.chars().collect()];
        Sieve::new(Some(&runs), true).may_hold(record.as_bytes())
    }

    #[test]
    fn spellings_pass_and_nothing_else_does() {
        for may_hold in [may_hold, may_hold_folded] {
            assert!(may_hold("task", r#"{"a":"t\u0061sk"}"#));
            assert!(may_hold("task", r#"{"a":"ta\u017F\u212A"}"#));
            assert!(may_hold("task", r#"{"a":"{\"b\":\"t\\u0061sk\"}"}"#));
            assert!(may_hold("task", r#"{"a":"\u005cu0074ask"}"#));
            assert!(may_hold("task", r#"{"a":"\u00"#));
            assert!(may_hold("日本", r#"{"a":"\u65e5\u672C"}"#));
            assert!(may_hold("a😀", r#"{"a":"a\ud83d\ude00"}"#));
            assert!(!may_hold("task", r#"{"a":"\u001b[31m\u00e9\ud83d\ude00"}"#));
            assert!(!may_hold("日本", r#"{"a":"\u001b[31m ete"}"#));
        }
        assert!(may_hold("été", r#"{"a":"\u00c9t\u00E9"}"#));
        assert!(!may_hold("été", r#"{"a":"\u001b[31m ete"}"#));
        assert!(Sieve::new(None, false).may_hold(b"{}"));
    }

    #[test]
    fn other_spellings_pass_where_texts_are_folded() {
        for (run, record) in [
            ("ete", "l'été"),
            ("ete", "e\u{301}te"),
            ("ete", r"\u00c9t\u00E9"),
            ("ete", r"e\u0301te"),
            ("strasse", "STRAßE"),
            ("oeuvre", "Œuvre"),
            ("find", "ﬁnd"),
            ("full", "ＦＵＬＬ"),
            ("kg", "5 \u{212a}g"),
            ("lodz", "Łódź"),
            ("istanbul", "İstanbul"),
            ("が", "か\u{3099}"),
            ("한", "\u{1112}\u{1161}\u{11AB}"),
            ("каи", "кай"),
            ("豈", "\u{f900}"),
        ] {
            assert!(may_hold_folded(run, record), "{run} in {record}");
        }
        for (run, record) in [
            ("ete", "日本語 😀 ┌──┐ → … “x”"),
            ("ete", "ñ ç ß Œ ﬁ"),
            ("xyz", "l'été à Zurich"),
            ("한", "ハングル 日本"),
            ("task", r"\u00e8\u00ff\ud83d\ude00"),
        ] {
            let plain = may_hold_folded(run, record);
            assert_eq!(
                plain,
                run == "ete" && record.contains('Œ'),
                "{run} in {record}"
            );
        }
    }
}
