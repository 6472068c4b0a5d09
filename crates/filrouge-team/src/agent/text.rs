//! An agent's output as text: UTF-8 without terminal controls.

/// The length in bytes at which a control string (a title, a link's target) counts as unterminated and becomes text.
const STRING_BYTES_MAX: usize = 4 << 10;

/// Decodes output incrementally. The result does not depend on how the output is split into pieces.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The first bytes of an incomplete character.
    incomplete: Vec<u8>,
    /// The number of malformed pieces that were replaced.
    pub(super) replaced: u64,
    controls: ControlFilter,
}

impl Decoder {
    /// Decodes the next bytes; returns the text that later bytes cannot change.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        self.incomplete.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.incomplete);
        let mut text = String::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.controls.push(chunk.valid(), &mut text);
            let malformed = chunk.invalid();
            let may_continue = |error: std::str::Utf8Error| error.error_len().is_none();
            if chunks.peek().is_none() && std::str::from_utf8(malformed).is_err_and(may_continue) {
                self.incomplete = malformed.to_vec();
            } else if !malformed.is_empty() {
                self.replace(&mut text);
            }
        }
        text
    }

    /// Ends the output and returns the remaining text.
    pub(super) fn finish(&mut self) -> String {
        let mut text = String::new();
        if !std::mem::take(&mut self.incomplete).is_empty() {
            self.replace(&mut text);
        }
        self.controls.flush_string(&mut text);
        text
    }

    fn replace(&mut self, text: &mut String) {
        self.replaced += 1;
        self.controls.push("\u{fffd}", text);
    }
}

/// Removes control sequences (ECMA-48) and all control characters except line feed and tab. A carriage return becomes a
/// line feed.
#[derive(Debug, Default)]
struct ControlFilter {
    state: State,
    /// The incomplete control string; it becomes text if neither ST nor BEL ends it.
    control_string: String,
    /// Whether the last character was a carriage return: a line feed that follows it is dropped.
    after_return: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and intermediate bytes.
    Intermediate,
    /// In a sequence with parameters.
    Sequence,
    /// In a control string, which ST or BEL ends.
    String,
    /// After an ESC in a control string; with `\`, it is ST.
    StringEscape,
}

impl ControlFilter {
    fn push(&mut self, input: &str, text: &mut String) {
        for c in input.chars() {
            self.push_char(c, text);
        }
    }

    fn push_char(&mut self, c: char, text: &mut String) {
        match (self.state, c) {
            (State::Text, _) => self.push_plain(c, text),
            (State::Escape, '[') => self.state = State::Sequence,
            (State::Escape, ']' | 'P' | 'X' | '^' | '_') => self.state = State::String,
            (State::Escape, ' '..='/') => self.state = State::Intermediate,
            (State::Intermediate, ' '..='/') | (State::Sequence, ' '..='?') => {}
            (State::Escape | State::Intermediate, '0'..='~') | (State::Sequence, '@'..='~') => {
                self.state = State::Text;
            }
            // A character that the sequence cannot contain ends it, and is plain text.
            (State::Escape | State::Intermediate | State::Sequence, _) => {
                self.state = State::Text;
                self.push_plain(c, text);
            }
            (State::String, '\u{7}' | '\u{9c}') | (State::StringEscape, '\\') => {
                self.control_string.clear();
                self.state = State::Text;
            }
            (State::String, '\u{1b}') => self.state = State::StringEscape,
            // A line break ends a control string: it becomes text.
            (State::String, '\n' | '\r') => {
                self.flush_string(text);
                self.push_plain(c, text);
            }
            (State::String, _) => {
                self.control_string.push(c);
                if self.control_string.len() >= STRING_BYTES_MAX {
                    self.flush_string(text);
                }
            }
            (State::StringEscape, _) => {
                self.flush_string(text);
                self.state = State::Escape;
                self.push_char(c, text);
            }
        }
    }

    fn push_plain(&mut self, c: char, text: &mut String) {
        let follows_return = std::mem::take(&mut self.after_return);
        match c {
            '\n' if follows_return => {}
            '\n' | '\t' => text.push(c),
            '\r' => {
                text.push('\n');
                self.after_return = true;
            }
            '\u{1b}' => self.state = State::Escape,
            '\u{9b}' => self.state = State::Sequence,
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => self.state = State::String,
            _ if c.is_control() => {}
            _ => text.push(c),
        }
    }

    /// Outputs a presumed control string as text, so that an unterminated one hides nothing.
    fn flush_string(&mut self, text: &mut String) {
        self.state = State::Text;
        for c in std::mem::take(&mut self.control_string).chars() {
            self.push_plain(c, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode_all(bytes: &[u8]) -> (String, u64) {
        let mut decoder = Decoder::default();
        let mut text = decoder.push(bytes);
        text.push_str(&decoder.finish());
        (text, decoder.replaced)
    }

    #[test]
    fn terminal_controls_are_removed() {
        for (output, text) in [
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}a\u{1b}]8;;https://x\u{1b}\\b", "ab"),
            ("\u{9b}2Ka\u{1b}(Bb\u{1b}c", "ab"),
            ("one\r\ntwo\rthree\n", "one\ntwo\nthree\n"),
            ("a\u{0}\u{8}\u{7f}\u{85}b\tc", "ab\tc"),
            ("\u{1b}[31\nline", "\nline"),
            ("\u{1b}]never ended\nline", "never ended\nline"),
            ("a\u{1b}", "a"),
            ("héé 红线 🧵", "héé 红线 🧵"),
        ] {
            assert_eq!(
                decode_all(output.as_bytes()),
                (text.into(), 0),
                "{output:?}"
            );
        }
    }

    #[test]
    fn invalid_utf8_is_replaced_and_counted() {
        assert_eq!(
            decode_all(b"a\xffb\xe7\xba"),
            ("a\u{fffd}b\u{fffd}".into(), 2)
        );
        assert_eq!(decode_all(b"\xe7\xbaX"), ("\u{fffd}X".into(), 1));
    }

    #[test]
    fn a_long_unterminated_string_is_text() {
        let long = "x".repeat(3 * STRING_BYTES_MAX);
        assert_eq!(decode_all(format!("\u{1b}]{long}").as_bytes()).0, long);
    }

    proptest! {
        #[test]
        fn the_text_does_not_depend_on_the_chunks(
            parts in prop::collection::vec(prop_oneof![
                prop::collection::vec(any::<u8>(), 0..6),
                prop::sample::select(vec!["\u{1b}[3", "1m", "\u{1b}]0;", "\u{7}", "红", "é", "\r", "\n", "\u{9b}"])
                    .prop_map(|text| text.as_bytes().to_vec()),
            ], 0..20),
            cut in 1..4usize,
        ) {
            let bytes = parts.concat();
            let mut decoder = Decoder::default();
            let mut text: String = bytes.chunks(cut).map(|piece| decoder.push(piece)).collect();
            text.push_str(&decoder.finish());
            prop_assert_eq!((text.clone(), decoder.replaced), decode_all(&bytes));
            let controls = text.chars().filter(|c| c.is_control() && !matches!(c, '\n' | '\t'));
            prop_assert_eq!(controls.count(), 0);
        }
    }
}
