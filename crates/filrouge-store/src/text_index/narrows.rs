//! Decides which literals narrow a search: literals with three consecutive characters, or with a character that can be
//! a complete word.

/// Whether an index can find texts by a folded literal. The literal must have three consecutive characters, none of
/// them U+001F (which separates the pieces of a text), or one character of a script whose words have one or two
/// characters.
pub fn can_narrow(literal: &str) -> bool {
    let is_long = |piece: &str| piece.chars().nth(2).is_some();
    literal.chars().any(is_dense) || literal.split('\u{1F}').any(is_long)
}

/// Whether a character belongs to a script whose words have one or two characters: Chinese, Japanese, Korean.
pub const fn is_dense(c: char) -> bool {
    matches!(c,
        '\u{2E80}'..='\u{2FDF}' | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30FF}' | '\u{3130}'..='\u{318F}'
        | '\u{31F0}'..='\u{31FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{A960}'..='\u{A97F}'
        | '\u{AC00}'..='\u{D7FF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}' | '\u{1100}'..='\u{11FF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_words_narrow_only_in_dense_scripts() {
        for literal in ["中", "学习", "abc", "a b", "été"] {
            assert!(can_narrow(literal), "{literal}");
        }
        for literal in ["ab", "é", "a\u{1f}bc", ""] {
            assert!(!can_narrow(literal), "{literal}");
        }
    }
}
