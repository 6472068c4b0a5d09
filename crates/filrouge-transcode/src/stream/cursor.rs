//! One quick pass over the JSON of an event. Most events of a stream bring a piece of text and nothing else, in the same
//! members each time: a decoder looks for these, and whatever is otherwise it leaves to [`super::json::read`].

use std::ops::Range;

/// Deepest nesting of what is passed over.
const DEEPEST: usize = 32;

const EACH: u64 = 0x0101_0101_0101_0101;

/// Where in the JSON a look is. Whatever it has passed is valid; `None` from any of its methods means that the JSON is
/// not, or not of the shape that was looked for.
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

/// Which members of an object have come: those that are asked for must not come twice.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen(u32);

impl Seen {
    pub(super) const fn first(&mut self, member: u32) -> Option<()> {
        let bit = 1 << member;
        if self.0 & bit != 0 {
            return None;
        }
        self.0 |= bit;
        Some(())
    }
}

/// What stands between the quotes of a value that is a string.
pub(super) fn inner(value: &str) -> Option<&str> {
    value.strip_prefix('"')?.strip_suffix('"')
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// What it has not passed yet.
    pub(super) fn ahead(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Passes over this beginning, if it is there; of a text that was passed over once it need not be looked at again.
    pub(super) fn pass_over(&mut self, beginning: &str) -> bool {
        let begins = self.ahead().starts_with(beginning);
        if begins {
            self.at += beginning.len();
        }
        begins
    }

    /// How many bytes are behind it.
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next byte that is no white space.
    fn next(&mut self) -> Option<u8> {
        while matches!(self.byte()?, b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
        self.byte()
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.takes(byte)?.then_some(())
    }

    fn takes(&mut self, byte: u8) -> Option<bool> {
        let is_there = self.next()? == byte;
        self.at += usize::from(is_there);
        Some(is_there)
    }

    /// An object: `member` is shown the name of each member and takes its value. Names with escapes are not taken.
    pub(super) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, &'a str) -> Option<()>,
    ) -> Option<()> {
        self.expect(b'{')?;
        if self.takes(b'}')? {
            return Some(());
        }
        loop {
            let name = self.name()?;
            self.expect(b':')?;
            member(self, name)?;
            if !self.takes(b',')? {
                return self.expect(b'}');
            }
        }
    }

    /// The end of an object.
    pub(super) fn close(&mut self) -> Option<()> {
        self.expect(b'}')
    }

    /// An array: `entry` takes each value.
    pub(super) fn array(&mut self, mut entry: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.expect(b'[')?;
        if self.takes(b']')? {
            return Some(());
        }
        loop {
            entry(self)?;
            if !self.takes(b',')? {
                return self.expect(b']');
            }
        }
    }

    /// A string, as it is spelled between its quotes.
    pub(super) fn string(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let begin = self.at;
        self.quote()?;
        self.text.get(begin..self.at - 1)
    }

    fn name(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let begin = self.at;
        let has_escapes = self.quote()?;
        let name = self.text.get(begin..self.at - 1)?;
        (!has_escapes).then_some(name)
    }

    /// Goes behind the quote that ends a string; whether the string has escapes.
    fn quote(&mut self) -> Option<bool> {
        let mut has_escapes = false;
        loop {
            self.plain();
            let byte = self.byte()?;
            self.at += 1;
            match byte {
                b'"' => return Some(has_escapes),
                b'\\' => self.escape()?,
                _ => return None,
            }
            has_escapes = true;
        }
    }

    /// Goes to the next quote, backslash or control character, eight bytes at a time.
    fn plain(&mut self) {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let (words, bytes) = rest.as_chunks::<8>();
        for word in words {
            let word = u64::from_le_bytes(*word);
            let is = |byte: u8| {
                let same = word ^ (EACH * u64::from(byte));
                same.wrapping_sub(EACH) & !same
            };
            let control = word.wrapping_sub(EACH * 0x20) & !word;
            let found = (control | is(b'"') | is(b'\\')) & (EACH << 7);
            if found != 0 {
                self.at += found.trailing_zeros() as usize / 8;
                return;
            }
            self.at += 8;
        }
        let plain = |b: &&u8| **b >= 0x20 && !matches!(b, b'"' | b'\\');
        self.at += bytes.iter().take_while(plain).count();
    }

    fn escape(&mut self) -> Option<()> {
        let rest = self.text.as_bytes().get(self.at..)?;
        let length = match rest.first()? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 1,
            b'u' if rest.get(1..5)?.iter().all(u8::is_ascii_hexdigit) => 5,
            _ => return None,
        };
        self.at += length;
        Some(())
    }

    /// A whole number without sign or zeros before it.
    pub(super) fn number(&mut self) -> Option<u64> {
        let first = self.next()?;
        let (mut value, begin) = (0_u64, self.at);
        while let Some(digit) = self.byte().filter(u8::is_ascii_digit) {
            value = value
                .checked_mul(10)?
                .checked_add(u64::from(digit - b'0'))?;
            self.at += 1;
        }
        let is_plain = first != b'0' || self.at == begin + 1;
        (self.at > begin && is_plain).then_some(value)
    }

    pub(super) fn null(&mut self) -> Option<()> {
        self.next()?;
        self.word("null")
    }

    /// Any value, as it stands.
    pub(super) fn value(&mut self) -> Option<&'a str> {
        self.next()?;
        let begin = self.at;
        self.pass(DEEPEST)?;
        self.text.get(begin..self.at)
    }

    /// Where any value stands.
    pub(super) fn place(&mut self) -> Option<Range<usize>> {
        let length = self.value()?.len();
        Some(self.at - length..self.at)
    }

    /// Passes over a value.
    pub(super) fn skip(&mut self) -> Option<()> {
        self.pass(DEEPEST)
    }

    fn pass(&mut self, deepest: usize) -> Option<()> {
        match self.next()? {
            b'"' => {
                self.at += 1;
                self.quote().map(drop)
            }
            b'{' => self.nested(b'}', deepest.checked_sub(1)?),
            b'[' => self.nested(b']', deepest.checked_sub(1)?),
            b'n' => self.word("null"),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            _ => self.digits(),
        }
    }

    fn nested(&mut self, end: u8, deepest: usize) -> Option<()> {
        self.at += 1;
        if self.takes(end)? {
            return Some(());
        }
        loop {
            if end == b'}' {
                self.expect(b'"')?;
                self.quote()?;
                self.expect(b':')?;
            }
            self.pass(deepest)?;
            if !self.takes(b',')? {
                return self.expect(end);
            }
        }
    }

    fn word(&mut self, word: &str) -> Option<()> {
        let rest = self.text.as_bytes().get(self.at..)?;
        self.at += word.len();
        rest.starts_with(word.as_bytes()).then_some(())
    }

    fn digits(&mut self) -> Option<()> {
        self.at += usize::from(self.byte() == Some(b'-'));
        let begins_with_zero = self.byte() == Some(b'0');
        if self.some_digits()? > 1 && begins_with_zero {
            return None;
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if matches!(self.byte(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), Some(b'+' | b'-')));
            self.some_digits()?;
        }
        Some(())
    }

    /// How many digits follow, at least one.
    fn some_digits(&mut self) -> Option<usize> {
        let begin = self.at;
        while self.byte().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > begin).then(|| self.at - begin)
    }

    /// Whether nothing follows.
    pub(super) fn end(&mut self) -> Option<()> {
        self.next().is_none().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    fn passes(json: &str) -> bool {
        let mut cursor = Cursor::new(json);
        cursor.skip().and_then(|()| cursor.end()).is_some()
    }

    fn reads(json: &str) -> bool {
        serde_json::from_str::<&RawValue>(json).is_ok()
    }

    #[test]
    fn what_is_looked_for_is_found() {
        let json = r#" { "a" : 12 , "b":[ null,"x\"\u00e9y" ], "c" :{"\"":[-1.5e+3]} } "#;
        let mut cursor = Cursor::new(json);
        let mut found = Vec::new();
        let looked = cursor.object(|cursor, name| {
            match name {
                "a" => found.push(cursor.number()?.to_string()),
                "b" => {
                    let mut at = 0;
                    cursor.array(|cursor| {
                        at += 1;
                        if at == 1 {
                            return cursor.null();
                        }
                        found.push(cursor.string()?.to_owned());
                        Some(())
                    })?;
                }
                _ => found.push(cursor.value()?.to_owned()),
            }
            Some(())
        });
        assert_eq!(looked.and_then(|()| cursor.end()), Some(()));
        assert_eq!(found, ["12", r#"x\"\u00e9y"#, r#"{"\"":[-1.5e+3]}"#]);
        let mut seen = Seen::default();
        assert_eq!((seen.first(3), seen.first(3)), (Some(()), None));
    }

    #[test]
    fn what_is_no_json_is_not_passed() {
        for json in [
            "",
            " ",
            "nul",
            "nulll",
            "+1",
            "01",
            "1.",
            "1e",
            "-",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\u{1}\"",
            "\"a",
            "[1,]",
            "[1 2]",
            "{\"a\"}",
            "{\"a\":1,}",
            "{a:1}",
            "[}",
            "{]",
            "{\"a\":1} 2",
            "tru",
            "[[]",
        ] {
            assert!(!passes(json) && !reads(json), "{json:?}");
        }
        assert!(!passes(&format!("{}1{}", "[".repeat(33), "]".repeat(33))));
        for number in ["-1", "1.0", "18446744073709551616", "\"1\"", "1e2"] {
            let mut cursor = Cursor::new(number);
            let whole = cursor.number().filter(|_| cursor.end().is_some());
            assert_eq!(whole, None, "{number}");
        }
    }

    proptest! {
        #[test]
        fn it_passes_what_is_json(
            pieces in proptest::collection::vec(
                prop_oneof![
                    Just("{"), Just("}"), Just("["), Just("]"), Just(","), Just(":"), Just("\"a\""), Just("\"a\":"), Just("\""), Just("\\"),
                    Just("\\u00e9"), Just("\\n"), Just("1"), Just("0"), Just("-"), Just("."), Just("e"), Just("null"), Just("true"),
                    Just(" "), Just("\n"), Just("\u{1f}"), Just("é"), Just("abcdefghijklmnop"),
                ],
                0..14,
            ),
        ) {
            let json = pieces.concat();
            prop_assert_eq!(passes(&json), reads(&json), "{}", json);
        }
    }
}
