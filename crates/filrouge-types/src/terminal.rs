//! Characters that act on what shows them.

/// Whether a character acts on a terminal or on the line that contains it: a control character other than a line feed
/// or a tab, a line or paragraph separator, or a change of direction (Unicode Standard Annex 9).
///
/// Marks of right-to-left text and characters that join others do not act on the text around them.
pub fn controls_terminal(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    }
}
