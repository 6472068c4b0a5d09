//! Reads runs of characters in a text, which may be the inside of a JSON string at any depth of escaping. A *symbol* is
//! one character of a credential, as such or escaped.

/// The maximum number of backslashes before an escaped character. JSON nested in JSON has several.
const BACKSLASHES_MAX: usize = 15;

/// Number of dashes on each side of a PEM label.
const PEM_DASHES: usize = 5;

/// The alphabet of a part of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alphabet {
    /// Letters and digits.
    Alnum,
    /// Letters, digits and `_`.
    Word,
    /// Letters, digits, `_` and `-`, the alphabet of base64url.
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

impl Alphabet {
    /// Whether the byte `b` belongs to the alphabet.
    pub(super) const fn contains(self, b: u8) -> bool {
        match self {
            Self::Alnum => b.is_ascii_alphanumeric(),
            Self::Word => is_word_byte(b),
            Self::Url => is_word_byte(b) || b == b'-',
            Self::Dotted => is_word_byte(b) || matches!(b, b'-' | b'.'),
            Self::Hex => b.is_ascii_hexdigit(),
            Self::Upper => b.is_ascii_uppercase() || b.is_ascii_digit(),
            Self::Base64 => b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='),
            Self::Bearer => is_word_byte(b) || matches!(b, b'-' | b'.' | b'~' | b'+' | b'/' | b'='),
        }
    }

    const fn may_be_escaped(self) -> bool {
        matches!(self, Self::Base64 | Self::Bearer)
    }

    const fn has_inner_dots(self) -> bool {
        matches!(self, Self::Dotted | Self::Bearer)
    }
}

pub(super) const fn is_word_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// A text in which credentials are searched. It may be the beginning of a text that still grows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'a> {
    pub(super) bytes: &'a [u8],
    /// Whether the text is complete; otherwise more bytes may follow.
    pub(super) complete: bool,
}

/// The extent of a run: consecutive symbols of one alphabet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// The position after the run's last byte.
    pub(super) end: usize,
    /// Number of symbols.
    pub(super) count: usize,
    /// Whether the run may become longer, because the text ends with it and is not complete.
    pub(super) may_grow: bool,
}

enum Symbol {
    /// The decoded byte, and the number of bytes in the text that spell it.
    Byte(u8, usize),
    /// The text ends before the symbol is complete.
    Incomplete,
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

    /// Whether the text ends at or before `at` and may still grow.
    pub(super) const fn may_arrive(&self, at: usize) -> bool {
        at >= self.bytes.len() && !self.complete
    }

    /// Whether `literal` is at `at`; `None` if the text ends within it and may still grow.
    pub(super) fn literal_at(&self, at: usize, literal: &[u8]) -> Option<bool> {
        let rest = self.from(at);
        if rest.len() >= literal.len() {
            Some(rest.starts_with(literal))
        } else if !self.complete && literal.starts_with(rest) {
            None
        } else {
            Some(false)
        }
    }

    /// The run of symbols of `alphabet` from `at` on, at most `max` symbols.
    pub(super) fn run(&self, at: usize, alphabet: Alphabet, max: usize) -> Run {
        let (mut end, mut count, mut may_grow) = (at, 0, false);
        while count < max {
            match self.symbol(end, alphabet) {
                Some(Symbol::Byte(b, length)) if alphabet.contains(b) => {
                    // Five dashes belong to a PEM label, not to a token.
                    if b == b'-' {
                        let dashes = self.from(end).iter().take(PEM_DASHES);
                        let dashes = dashes.take_while(|b| **b == b'-').count();
                        if dashes == PEM_DASHES {
                            break;
                        }
                        if self.may_arrive(end + dashes) {
                            may_grow = true;
                            break;
                        }
                    }
                    if b == b'.' && alphabet.has_inner_dots() {
                        // A dot belongs to the run only if another symbol follows it.
                        match self.symbol(end + length, alphabet) {
                            Some(Symbol::Byte(next, _))
                                if next != b'.' && alphabet.contains(next) => {}
                            Some(Symbol::Byte(..)) => break,
                            Some(Symbol::Incomplete) | None => {
                                may_grow = !self.complete;
                                break;
                            }
                        }
                    }
                    end += length;
                    count += 1;
                }
                Some(Symbol::Byte(..)) => break,
                Some(Symbol::Incomplete) | None => {
                    may_grow = !self.complete;
                    break;
                }
            }
        }
        Run {
            end,
            count,
            may_grow,
        }
    }

    /// The first symbols of `alphabet` from `at` on, at most `max`, with their escapes resolved.
    pub(super) fn symbols(&self, at: usize, alphabet: Alphabet, max: usize) -> Vec<u8> {
        let mut symbols = Vec::new();
        let mut at = at;
        while symbols.len() < max
            && let Some(Symbol::Byte(b, length)) = self.symbol(at, alphabet)
            && alphabet.contains(b)
        {
            symbols.push(b);
            at += length;
        }
        symbols
    }

    fn symbol(&self, at: usize, alphabet: Alphabet) -> Option<Symbol> {
        let first = self.get(at)?;
        if first != b'\\' || !alphabet.may_be_escaped() {
            return Some(Symbol::Byte(first, 1));
        }
        let slashes = backslashes(self.from(at)).min(BACKSLASHES_MAX);
        let rest = self.from(at + slashes);
        let unescaped = Some(Symbol::Byte(first, 1));
        match rest {
            [b'/', ..] => Some(Symbol::Byte(b'/', slashes + 1)),
            [b'u', b'0', b'0', high, low, ..] => match (high, low.to_ascii_lowercase()) {
                (b'2', b'b') => Some(Symbol::Byte(b'+', slashes + 5)),
                (b'2', b'f') => Some(Symbol::Byte(b'/', slashes + 5)),
                (b'3', b'd') => Some(Symbol::Byte(b'=', slashes + 5)),
                _ => unescaped,
            },
            // The text may end within an escape.
            rest if !self.complete
                && rest.len() < 5
                && rest.iter().zip(b"u00").all(|(a, b)| a == b) =>
            {
                Some(Symbol::Incomplete)
            }
            _ => unescaped,
        }
    }

    /// Whether a credential may begin at `at`. It may not if a letter, digit, `_` or `-` precedes it, except one that
    /// ends an escape or a PEM label.
    pub(super) fn can_begin_at(&self, at: usize) -> bool {
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
        !(is_word_byte(before) || before == b'-') || dashes || self.escape_ends(at)
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

    /// The start of the run of `alphabet` that ends before `at`. The run has at most `max` bytes and does not begin
    /// within an escape.
    pub(super) fn run_start(&self, at: usize, alphabet: Alphabet, max: usize) -> usize {
        let mut start = at;
        while at - start < max
            && start > 0
            && alphabet.contains(self.bytes[start - 1])
            && !self.escape_ends(start)
            && !self.bytes[..start].ends_with(b"-----")
        {
            start -= 1;
        }
        start
    }

    /// Whether `word` occurs within the `max` bytes before `at`, in upper or lower case.
    pub(super) fn has_word_before(&self, at: usize, max: usize, word: &[u8]) -> bool {
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
    let (mut output, mut bits, mut bit_count) = (Vec::with_capacity(symbols.len()), 0_u32, 0);
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
        bit_count += 6;
        if bit_count >= 8 {
            bit_count -= 8;
            output.push((bits >> bit_count).to_le_bytes()[0]);
            bits &= (1 << bit_count) - 1;
        }
    }
    Some(output)
}
