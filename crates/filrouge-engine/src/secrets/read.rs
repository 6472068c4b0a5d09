//! Reading bytes of a text that may itself be the inside of a JSON string, at any depth of escapes.

/// Backslashes before a character that is escaped several times over, JSON in JSON.
const DEPTH: usize = 15;

/// Dashes around a label in PEM.
const ARMOUR: usize = 5;

/// Which bytes a part of a credential is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Letters and digits.
    Alnum,
    /// Letters, digits and `_`.
    Word,
    /// Letters, digits, `_` and `-`: base64url.
    Url,
    /// Base64url in segments with a dot between them.
    Dotted,
    /// Hexadecimal digits.
    Hex,
    /// Capital letters and digits.
    Upper,
    /// Base64; `/`, `+` and `=` may be escaped.
    Base64,
    /// What a bearer token may hold (RFC 6750), dots between; `/`, `+` and `=` may be escaped.
    Bearer,
}

impl Class {
    pub(super) const fn has(self, b: u8) -> bool {
        match self {
            Self::Alnum => b.is_ascii_alphanumeric(),
            Self::Word => word(b),
            Self::Url => word(b) || b == b'-',
            Self::Dotted => word(b) || matches!(b, b'-' | b'.'),
            Self::Hex => b.is_ascii_hexdigit(),
            Self::Upper => b.is_ascii_uppercase() || b.is_ascii_digit(),
            Self::Base64 => b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='),
            Self::Bearer => word(b) || matches!(b, b'-' | b'.' | b'~' | b'+' | b'/' | b'='),
        }
    }

    const fn escapes(self) -> bool {
        matches!(self, Self::Base64 | Self::Bearer)
    }

    const fn dots(self) -> bool {
        matches!(self, Self::Dotted | Self::Bearer)
    }
}

pub(super) const fn word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// A text, and whether it may still grow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'a> {
    pub(super) bytes: &'a [u8],
    /// Nothing will follow.
    pub(super) whole: bool,
}

/// How far a run goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// Behind its last byte.
    pub(super) end: usize,
    /// Symbols in it.
    pub(super) count: usize,
    /// It ends where the text does, which may still grow.
    pub(super) open: bool,
}

enum Symbol {
    /// A byte and how many bytes spell it.
    Is(u8, usize),
    /// The text ends before it can be told.
    Cut,
}

impl<'a> Text<'a> {
    pub(super) const fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn get(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    pub(super) fn from(&self, at: usize) -> &'a [u8] {
        self.bytes.get(at..).unwrap_or_default()
    }

    /// Whether what is asked at `at` cannot be told yet.
    pub(super) const fn unknown(&self, at: usize) -> bool {
        at >= self.bytes.len() && !self.whole
    }

    /// Whether `literal` stands at `at`; `None` when it may still come to stand there.
    pub(super) fn literal(&self, at: usize, literal: &[u8]) -> Option<bool> {
        let rest = self.from(at);
        if rest.len() >= literal.len() {
            Some(rest.starts_with(literal))
        } else if !self.whole && literal.starts_with(rest) {
            None
        } else {
            Some(false)
        }
    }

    /// The bytes of `class` from `at` on, at most `most` of them.
    pub(super) fn run(&self, at: usize, class: Class, most: usize) -> Run {
        let (mut end, mut count) = (at, 0);
        while count < most {
            match self.symbol(end, class) {
                Some(Symbol::Is(b, length)) if class.has(b) => {
                    // Five dashes are an armour's, not a token's.
                    if b == b'-' {
                        let dashes = self.from(end).iter().take(ARMOUR);
                        let dashes = dashes.take_while(|b| **b == b'-').count();
                        if dashes == ARMOUR {
                            break;
                        }
                        if self.unknown(end + dashes) {
                            let open = true;
                            return Run { end, count, open };
                        }
                    }
                    if b == b'.' && class.dots() {
                        // A dot belongs to it only when something follows.
                        match self.symbol(end + length, class) {
                            Some(Symbol::Is(next, _)) if next != b'.' && class.has(next) => {}
                            Some(Symbol::Is(..)) => break,
                            Some(Symbol::Cut) | None => {
                                let open = !self.whole;
                                return Run { end, count, open };
                            }
                        }
                    }
                    end += length;
                    count += 1;
                }
                Some(Symbol::Is(..)) => break,
                Some(Symbol::Cut) | None => {
                    let open = !self.whole;
                    return Run { end, count, open };
                }
            }
        }
        Run {
            end,
            count,
            open: false,
        }
    }

    /// The symbols of a run, their escapes resolved.
    pub(super) fn symbols(&self, at: usize, class: Class, most: usize) -> Vec<u8> {
        let mut found = Vec::new();
        let mut at = at;
        while found.len() < most
            && let Some(Symbol::Is(b, length)) = self.symbol(at, class)
            && class.has(b)
        {
            found.push(b);
            at += length;
        }
        found
    }

    fn symbol(&self, at: usize, class: Class) -> Option<Symbol> {
        let first = self.get(at)?;
        if first != b'\\' || !class.escapes() {
            return Some(Symbol::Is(first, 1));
        }
        let slashes = backslashes(self.from(at)).min(DEPTH);
        let rest = self.from(at + slashes);
        let plain = Some(Symbol::Is(first, 1));
        match rest {
            [b'/', ..] => Some(Symbol::Is(b'/', slashes + 1)),
            [b'u', b'0', b'0', high, low, ..] => match (high, low.to_ascii_lowercase()) {
                (b'2', b'b') => Some(Symbol::Is(b'+', slashes + 5)),
                (b'2', b'f') => Some(Symbol::Is(b'/', slashes + 5)),
                (b'3', b'd') => Some(Symbol::Is(b'=', slashes + 5)),
                _ => plain,
            },
            // The text may end within one of them.
            rest if !self.whole
                && rest.len() < 5
                && rest.iter().zip(b"u00").all(|(a, b)| a == b) =>
            {
                Some(Symbol::Cut)
            }
            _ => plain,
        }
    }

    /// Whether a credential may begin at `at`: no letter, digit, `_` or `-` stands before it, unless an escape or an
    /// armour ends there.
    pub(super) fn begins(&self, at: usize) -> bool {
        let Some(before) = at.checked_sub(1).and_then(|at| self.get(at)) else {
            return true;
        };
        if before == b'\\' {
            // The letter is the end of an escape.
            return !matches!(
                self.get(at),
                Some(b'n' | b'r' | b't' | b'b' | b'f' | b'u' | b'x')
            );
        }
        // The dashes of an armour are no part of what follows them.
        let dashes = self.bytes[..at].ends_with(b"-----");
        !(word(before) || before == b'-') || dashes || self.escape_ends(at)
    }

    /// Whether an escape ends before `at`: `\n`, `\u00e9`, `\x1b`, `%3D`.
    pub(super) fn escape_ends(&self, at: usize) -> bool {
        let before = |n: usize| at.checked_sub(n).and_then(|at| self.get(at));
        let hex = |n: usize| (1..=n).all(|n| before(n).is_some_and(|b| b.is_ascii_hexdigit()));
        (before(2) == Some(b'\\')
            && matches!(before(1), Some(b'n' | b'r' | b't' | b'b' | b'f' | b'0')))
            || (before(6) == Some(b'\\') && before(5) == Some(b'u') && hex(4))
            || (before(4) == Some(b'\\') && before(3) == Some(b'x') && hex(2))
            || (before(3) == Some(b'%') && hex(2))
    }

    /// The beginning of the bytes of `class` before `at`, at most `most` of them, and not into an escape.
    pub(super) fn back(&self, at: usize, class: Class, most: usize) -> usize {
        let mut start = at;
        while at - start < most
            && start > 0
            && class.has(self.bytes[start - 1])
            && !self.escape_ends(start)
            && !self.bytes[..start].ends_with(b"-----")
        {
            start -= 1;
        }
        start
    }

    /// Whether one of the `most` bytes before `at` begins `word`, whatever its case.
    pub(super) fn near(&self, at: usize, most: usize, word: &[u8]) -> bool {
        let before = &self.bytes[at.saturating_sub(most)..at];
        before
            .windows(word.len())
            .any(|w| w.eq_ignore_ascii_case(word))
    }
}

/// How many backslashes a text begins with.
pub(super) fn backslashes(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| **b == b'\\').count()
}

/// Base64 of either alphabet, padded or not; what is behind the last whole byte is left out.
pub(super) fn decode(symbols: &[u8]) -> Option<Vec<u8>> {
    let (mut out, mut bits, mut held) = (Vec::with_capacity(symbols.len()), 0_u32, 0);
    for symbol in symbols {
        let value = match symbol {
            b'A'..=b'Z' => symbol - b'A',
            b'a'..=b'z' => symbol - b'a' + 26,
            b'0'..=b'9' => symbol - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'=' => break,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held).to_le_bytes()[0]);
            bits &= (1 << held) - 1;
        }
    }
    Some(out)
}
