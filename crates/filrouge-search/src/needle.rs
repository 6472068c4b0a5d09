//! One run of characters, found in raw bytes in any case.
//!
//! The search leans on one character of the run that is rare and has no cases beyond ASCII: its bytes are looked for,
//! and only there the rest is compared. `s` and `k` are never leaned on, they are also `ſ` and the Kelvin sign.

use memchr::memmem::Finder;
use memchr::{memchr_iter, memchr2_iter};

use crate::literals::{Run, cases};

/// Finds a run.
#[derive(Debug)]
pub(crate) struct Needle {
    anchor: Anchor,
    /// What stands before the anchor, the nearest first.
    before: Vec<Folded>,
    behind: Vec<Folded>,
}

#[derive(Debug)]
enum Anchor {
    /// A byte that has one form.
    One(u8),
    /// A letter's two forms.
    Two(u8, u8),
    /// Characters of one form, beyond ASCII.
    Text(Box<Finder<'static>>, usize),
    /// Nothing to lean on: every place is tried.
    Anywhere,
}

/// A character in any case.
#[derive(Debug)]
enum Folded {
    /// Only in ASCII; the lower case.
    Ascii(u8),
    /// The bytes of each case.
    Wide(Vec<Box<[u8]>>),
}

impl Needle {
    /// The needle of a run that is not empty.
    pub(crate) fn new(run: &Run) -> Self {
        let all: Vec<Vec<char>> = run.iter().map(|c| cases(*c)).collect();
        let (anchor, place) = anchor(run, &all);
        let folded = |cases: &Vec<char>| Folded::of(cases.as_slice());
        let head = all.get(..place.start).unwrap_or_default();
        let tail = all.get(place.end..).unwrap_or_default();
        Self {
            anchor,
            before: head.iter().rev().map(folded).collect(),
            behind: tail.iter().map(folded).collect(),
        }
    }

    /// Whether the run stands anywhere in `text`.
    pub(crate) fn is_in(&self, text: &[u8]) -> bool {
        match &self.anchor {
            Anchor::One(byte) => memchr_iter(*byte, text).any(|at| self.fits(text, at, 1)),
            Anchor::Two(a, b) => memchr2_iter(*a, *b, text).any(|at| self.fits(text, at, 1)),
            Anchor::Text(finder, len) => finder.find_iter(text).any(|at| self.fits(text, at, *len)),
            Anchor::Anywhere => (0..text.len()).any(|at| self.fits(text, at, 0)),
        }
    }

    fn fits(&self, text: &[u8], at: usize, len: usize) -> bool {
        let (Some(mut head), Some(mut tail)) = (text.get(..at), text.get(at + len..)) else {
            return false;
        };
        self.behind.iter().all(|c| c.strip_front(&mut tail))
            && self.before.iter().all(|c| c.strip_back(&mut head))
    }
}

/// What to lean on, and which characters of the run it is.
fn anchor(run: &Run, all: &[Vec<char>]) -> (Anchor, std::ops::Range<usize>) {
    let ascii = all
        .iter()
        .enumerate()
        .filter(|(_, c)| c.iter().all(char::is_ascii));
    let rarest = ascii.min_by_key(|(_, cases)| cases.first().map_or(u32::MAX, |c| commonness(*c)));
    if let Some((at, cases)) = rarest {
        let anchor = match cases.as_slice() {
            [one] => Anchor::One(byte(*one)),
            [one, two] => Anchor::Two(byte(*one), byte(*two)),
            _ => return (Anchor::Anywhere, 0..0),
        };
        return (anchor, at..at + 1);
    }
    let caseless = longest_caseless(all);
    let text: String = run
        .get(caseless.clone())
        .unwrap_or_default()
        .iter()
        .collect();
    if text.is_empty() {
        return (Anchor::Anywhere, 0..0);
    }
    let finder = Finder::new(text.as_bytes()).into_owned();
    (Anchor::Text(Box::new(finder), text.len()), caseless)
}

fn byte(c: char) -> u8 {
    u8::try_from(c).unwrap_or_default()
}

fn longest_caseless(all: &[Vec<char>]) -> std::ops::Range<usize> {
    let (mut best, mut start) = (0..0, 0);
    for (at, cases) in all.iter().enumerate() {
        if cases.len() > 1 {
            start = at + 1;
        } else if at + 1 - start > best.len() {
            best = start..at + 1;
        }
    }
    best
}

/// How often a character stands in JSON of prose and code, roughly.
fn commonness(c: char) -> u32 {
    const LETTERS: [u8; 26] = [
        80, 15, 35, 38, 120, 24, 20, 35, 72, 4, 9, 42, 28, 68, 74, 28, 3, 66, 68, 92, 30, 11, 14,
        6, 17, 3,
    ];
    match c.to_ascii_lowercase() {
        ' ' => 200,
        letter @ 'a'..='z' => {
            let at = u32::from(letter) - u32::from('a');
            LETTERS.get(at as usize).copied().unwrap_or_default().into()
        }
        '0'..='3' => 18,
        '4'..='9' => 12,
        ':' | ',' | '.' | '-' => 20,
        _ => 6,
    }
}

impl Folded {
    fn of(cases: &[char]) -> Self {
        match cases.first() {
            Some(c) if cases.iter().all(char::is_ascii) => {
                Self::Ascii(byte(*c).to_ascii_lowercase())
            }
            _ => {
                let bytes = |c: &char| c.to_string().into_bytes().into_boxed_slice();
                Self::Wide(cases.iter().map(bytes).collect())
            }
        }
    }

    /// Takes the character off the front.
    fn strip_front(&self, text: &mut &[u8]) -> bool {
        let rest = match self {
            Self::Ascii(lower) => match text.split_first() {
                Some((first, rest)) if first.to_ascii_lowercase() == *lower => Some(rest),
                _ => None,
            },
            Self::Wide(cases) => cases.iter().find_map(|c| text.strip_prefix(&**c)),
        };
        rest.inspect(|rest| *text = rest).is_some()
    }

    /// Takes the character off the end. No character's bytes are the end of another's.
    fn strip_back(&self, text: &mut &[u8]) -> bool {
        let rest = match self {
            Self::Ascii(lower) => match text.split_last() {
                Some((last, rest)) if last.to_ascii_lowercase() == *lower => Some(rest),
                _ => None,
            },
            Self::Wide(cases) => cases.iter().find_map(|c| text.strip_suffix(&**c)),
        };
        rest.inspect(|rest| *text = rest).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_in(run: &str, text: &str) -> bool {
        Needle::new(&run.chars().collect()).is_in(text.as_bytes())
    }

    #[test]
    fn any_case_and_any_alphabet() {
        for (run, text) in [
            ("ask_user", "would ASK_User do"),
            ("kiss", "a \u{212a}i\u{17f}S"),
            ("ss", "ẞ \u{17f}s"),
            ("été", "l'ÉTÉ"),
            ("日本", "in 日本語"),
            ("ж本Ж", "xЖ本ж"),
            ("c++", "C++"),
            ("e", "E"),
        ] {
            assert!(is_in(run, text), "{run} in {text}");
            assert!(is_in(run, run), "{run} in itself");
        }
        assert!(!is_in("ask_user", "ask-user ask_use"));
        assert!(!is_in("本日", "日本"));
        assert!(!is_in("kiss", "k is s ki\u{17f}"));
        assert!(!is_in("été", "ete \u{e9}te"));
    }
}
