//! Reads runs of characters in a text that may be the inside of a JSON string, at any depth of escaping. A *symbol* is
//! one character of a credential, spelled as itself or as an escape.

/// The maximum number of backslashes before an escaped character. JSON nested in JSON has several.
const DEPTH: usize = 15;

/// Number of dashes on each side of a PEM label.
const ARMOR: usize = 5;

/// The alphabet of a part of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Letters and digits.
    Alnum,
    /// Letters, digits and `_`.
    Word,
    /// Letters, digits, `_` and `-`: base64url.
    Url,
    /// Segments in base64url with dots in between.
    Dotted,
    /// Hexadecimal digits.
    Hex,
    /// Capital letters and digits.
    Upper,
    /// Base64; `/`, `+` and `=` may be escaped.
    Base64,
    /// The characters of a bearer token (RFC 6750), with dots in between; `/`, `+` and `=` may be escaped.
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

/// A text in which credentials are searched. It may be the beginning of a text that still grows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'a> {
    pub(super) bytes: &'a [u8],
    /// Whether the text is complete; otherwise more bytes may follow.
    pub(super) complete: bool,
}

/// The extent of a run: consecutive symbols of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// The position after the run's last byte.
    pub(super) end: usize,
    /// Number of symbols.
    pub(super) count: usize,
    /// Whether the run may become longer, because the text ends there and is not complete.
    pub(super) open: bool,
}

enum Symbol {
    /// A byte, and the number of bytes that spell it.
    Is(u8, usize),
    /// The text ends before the symbol is complete.
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

    /// Whether the byte at `at` is not there yet but may still arrive.
    pub(super) const fn unknown(&self, at: usize) -> bool {
        at >= self.bytes.len() && !self.complete
    }

    /// Whether `literal` is at `at`; `None` if the text ends within it and may still grow.
    pub(super) fn literal(&self, at: usize, literal: &[u8]) -> Option<bool> {
        let rest = self.from(at);
        if rest.len() >= literal.len() {
            Some(rest.starts_with(literal))
        } else if !self.complete && literal.starts_with(rest) {
            None
        } else {
            Some(false)
        }
    }

    /// The run of symbols of `class` from `at` on, at most `max` symbols.
    pub(super) fn run(&self, at: usize, class: Class, max: usize) -> Run {
        let (mut end, mut count) = (at, 0);
        while count < max {
            match self.symbol(end, class) {
                Some(Symbol::Is(b, length)) if class.has(b) => {
                    // Five dashes belong to a PEM label, not to a token.
                    if b == b'-' {
                        let dashes = self.from(end).iter().take(ARMOR);
                        let dashes = dashes.take_while(|b| **b == b'-').count();
                        if dashes == ARMOR {
                            break;
                        }
                        if self.unknown(end + dashes) {
                            let open = true;
                            return Run { end, count, open };
                        }
                    }
                    if b == b'.' && class.dots() {
                        // A dot belongs to the run only if more follows.
                        match self.symbol(end + length, class) {
                            Some(Symbol::Is(next, _)) if next != b'.' && class.has(next) => {}
                            Some(Symbol::Is(..)) => break,
                            Some(Symbol::Cut) | None => {
                                let open = !self.complete;
                                return Run { end, count, open };
                            }
                        }
                    }
                    end += length;
                    count += 1;
                }
                Some(Symbol::Is(..)) => break,
                Some(Symbol::Cut) | None => {
                    let open = !self.complete;
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

    /// The first symbols of `class` from `at` on, at most `max`, with their escapes resolved.
    pub(super) fn symbols(&self, at: usize, class: Class, max: usize) -> Vec<u8> {
        let mut found = Vec::new();
        let mut at = at;
        while found.len() < max
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
            // The text may end within an escape.
            rest if !self.complete
                && rest.len() < 5
                && rest.iter().zip(b"u00").all(|(a, b)| a == b) =>
            {
                Some(Symbol::Cut)
            }
            _ => plain,
        }
    }

    /// Whether a credential may begin at `at`. It may not if a letter, digit, `_` or `-` precedes it, except one that
    /// ends an escape or a PEM label.
    pub(super) fn begins(&self, at: usize) -> bool {
        let Some(before) = at.checked_sub(1).and_then(|at| self.get(at)) else {
            return true;
        };
        if before == b'\\' {
            // A letter after a backslash completes an escape.
            return !matches!(
                self.get(at),
                Some(b'n' | b'r' | b't' | b'b' | b'f' | b'u' | b'x')
            );
        }
        // The dashes of a PEM label do not belong to the text after it.
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

    /// The start of the run of `class` that ends before `at`. The run has at most `max` bytes and does not begin within
    /// an escape.
    pub(super) fn back(&self, at: usize, class: Class, max: usize) -> usize {
        let mut start = at;
        while at - start < max
            && start > 0
            && class.has(self.bytes[start - 1])
            && !self.escape_ends(start)
            && !self.bytes[..start].ends_with(b"-----")
        {
            start -= 1;
        }
        start
    }

    /// Whether `word` occurs within the `max` bytes before `at`, in upper or lower case.
    pub(super) fn near(&self, at: usize, max: usize, word: &[u8]) -> bool {
        let before = &self.bytes[at.saturating_sub(max)..at];
        before
            .windows(word.len())
            .any(|w| w.eq_ignore_ascii_case(word))
    }
}

/// Number of backslashes at the start of `bytes`.
pub(super) fn backslashes(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| **b == b'\\').count()
}

/// Decodes base64 or base64url, padded or not. Bits after the last complete byte are ignored. `None` if another
/// character occurs.
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
