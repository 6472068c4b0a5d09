//! Which raw records are worth parsing.
//!
//! A record is JSON. Whatever is looked for stands in it as it is, but for `"`, `\`, `/` and control characters, which
//! have escapes of their own, and for what is spelled `\u…`: a record with such spellings passes. JSON within JSON
//! keeps both true, since a backslash is never part of what is looked for.

use memchr::memmem::Finder;

use crate::literals::Run;
use crate::needle::Needle;

/// Says of a record whether it may hold what is looked for; errs only by saying yes.
pub(crate) struct Sieve {
    /// Any of them is enough; `None`: everything passes.
    needles: Option<Vec<Needle>>,
    /// Whether no needle holds a character beyond ASCII.
    ascii: bool,
    escape: Finder<'static>,
}

impl Sieve {
    /// Of runs of which what is looked for holds at least one; `None` when nothing is known.
    pub(crate) fn new(runs: Option<&[Run]>) -> Self {
        Self {
            needles: runs.map(|runs| runs.iter().map(Needle::new).collect()),
            ascii: runs.is_some_and(|runs| runs.iter().flatten().all(char::is_ascii)),
            escape: Finder::new(b"\\u"),
        }
    }

    pub(crate) fn may_hold(&self, record: &[u8]) -> bool {
        let Some(needles) = &self.needles else {
            return true;
        };
        needles.iter().any(|needle| needle.is_in(record)) || self.is_spelled(record)
    }

    /// Whether characters that could be looked for are spelled `\u…`. Control characters most often are, and never
    /// looked for.
    fn is_spelled(&self, record: &[u8]) -> bool {
        let mut places = self.escape.find_iter(record);
        places.any(|at| match record.get(at + 2..at + 6).and_then(code) {
            Some(0..0x20) => false,
            // The two beyond ASCII are other cases of `s` and `k`.
            Some(code) if self.ascii => matches!(code, 0x20..=0x7f | 0x17f | 0x212a),
            _ => true,
        })
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
        Sieve::new(Some(&runs)).may_hold(record.as_bytes())
    }

    #[test]
    fn spellings_pass_and_nothing_else_does() {
        assert!(may_hold("task", r#"{"a":"t\u0061sk"}"#));
        assert!(may_hold("task", r#"{"a":"ta\u017F\u212A"}"#));
        assert!(may_hold("task", r#"{"a":"{\"b\":\"t\\u0061sk\"}"}"#));
        assert!(may_hold("task", r#"{"a":"\u005cu0074ask"}"#));
        assert!(may_hold("task", r#"{"a":"\u00"#));
        assert!(may_hold("été", r#"{"a":"\u00c9t\u00E9"}"#));
        assert!(!may_hold("task", r#"{"a":"\u001b[31m\u00e9\ud83d\ude00"}"#));
        assert!(!may_hold("été", r#"{"a":"\u001b[31m ete"}"#));
        assert!(Sieve::new(None).may_hold(b"{}"));
    }
}
