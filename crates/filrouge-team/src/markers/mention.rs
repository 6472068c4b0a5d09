//! Mentions: `@name` in a message's text.

use std::ops::Range;

use crate::team::{Member, Team, comparison_key};

/// The maximum number of bytes after an `@` that are searched for a name. The longest name has 200 bytes, and
/// full-width forms of its characters take more.
const WRITTEN_BYTES_MAX: usize = 800;

/// The mentions in order: the name as written, and its member; `None` for a word that is no member's name. Mentions in
/// code do not count.
pub(super) fn mentions<'c, 't>(
    content: &'c str,
    code: &[Range<usize>],
    team: &'t Team,
) -> Vec<(&'c str, Option<&'t Member>)> {
    let mut mentioned = Vec::new();
    if !content.contains('@') {
        return mentioned;
    }
    let names: Vec<(String, &Member)> = team
        .members
        .iter()
        .flat_map(|member| [&member.name, &member.id].map(|name| (comparison_key(name), member)))
        .collect();
    let mut code = code.iter().peekable();
    for (index, _) in content.match_indices('@') {
        while code.next_if(|range| range.end <= index).is_some() {}
        let in_code = code.peek().is_some_and(|range| range.start <= index);
        let before = content
            .get(..index)
            .and_then(|text| text.chars().next_back());
        if in_code || before.is_some_and(joins_to_word) {
            continue;
        }
        let after = content.get(index + 1..).unwrap_or_default();
        if let Some((len, member)) = longest_name(after, &names) {
            let written = after.get(..len).unwrap_or_default();
            mentioned.push((written, Some(member)));
        } else if let Some(word) = unknown_name(after) {
            mentioned.push((word, None));
        }
    }
    mentioned
}

/// The word at the start of `text`, if it begins with a letter and could be a name.
fn unknown_name(text: &str) -> Option<&str> {
    let is_name_char = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let (word, after) = text.split_at(text.find(|c: char| !is_name_char(c)).unwrap_or(text.len()));
    let is_name = word.starts_with(char::is_alphabetic) && word.len() <= WRITTEN_BYTES_MAX;
    (is_name && is_word_end(after)).then_some(word)
}

/// Whether the character before an `@` makes it part of an address, a path or a word.
fn joins_to_word(c: char) -> bool {
    matches!(
        c,
        '.' | '_' | '%' | '+' | '-' | '/' | '@' | '\\' | ':' | '='
    ) || is_word_char(c)
}

/// Whether a character belongs to a word. In scripts that write no blanks between words, no character does: there is a
/// boundary at each.
fn is_word_char(c: char) -> bool {
    let is_unspaced_script = matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{2e80}'..='\u{9fff}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}');
    c == '_' || c.is_alphanumeric() && !is_unspaced_script
}

/// The longest name at the start of `text`, followed by a word boundary.
fn longest_name<'t>(text: &str, names: &[(String, &'t Member)]) -> Option<(usize, &'t Member)> {
    let mut longest_match = None;
    if text.starts_with(char::is_whitespace) {
        return None;
    }
    let mut chars = text.char_indices().peekable();
    while let Some((index, c)) = chars.next() {
        let end = index + c.len_utf8();
        let next = chars.peek().map(|(_, next)| *next);
        if c == '\n' || end > WRITTEN_BYTES_MAX {
            break;
        }
        let key = comparison_key(text.get(..end)?);
        if let Some((_, member)) = names.iter().find(|(name, _)| *name == key) {
            let after = text.get(end..).unwrap_or_default();
            if !c.is_whitespace() && is_word_end(after) {
                longest_match = Some((end, *member));
            }
        }
        // A combining mark that follows may still change this character, so the search goes one character further.
        let may_compose = next.is_some_and(unicode_normalization::char::is_combining_mark);
        if !may_compose && !names.iter().any(|(name, _)| name.starts_with(&key)) {
            break;
        }
    }
    longest_match
}

/// Whether a word ends before `after`.
fn is_word_end(after: &str) -> bool {
    let mut chars = after.chars();
    match chars.next() {
        None => true,
        Some('.' | '-' | '@') => !chars.next().is_some_and(is_word_char),
        Some(c) => !is_word_char(c),
    }
}
