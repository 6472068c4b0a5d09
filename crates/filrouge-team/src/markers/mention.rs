//! Mentions: `@name` in a message's text.

use std::ops::Range;

use crate::team::{Member, Team, alike};

/// How many bytes after an `@` are searched for a name. The longest name has 200 bytes, and full-width forms of its
/// characters take more.
const WRITTEN_BYTES_MAX: usize = 800;

/// The mentioned members in order, each with the name as written. Mentions in code do not count.
pub(super) fn mentions<'c, 't>(
    content: &'c str,
    code: &[Range<usize>],
    team: &'t Team,
) -> Vec<(&'c str, &'t Member)> {
    let mut mentioned = Vec::new();
    if !content.contains('@') {
        return mentioned;
    }
    let names: Vec<(String, &Member)> = team
        .members
        .iter()
        .flat_map(|member| [(alike(&member.name), member), (alike(&member.id), member)])
        .collect();
    let mut code = code.iter().peekable();
    for (at, _) in content.match_indices('@') {
        while code.next_if(|range| range.end <= at).is_some() {}
        let in_code = code.peek().is_some_and(|range| range.start <= at);
        let before = content.get(..at).and_then(|text| text.chars().next_back());
        if in_code || before.is_some_and(joins) {
            continue;
        }
        let after = content.get(at + 1..).unwrap_or_default();
        if let Some((len, member)) = longest(after, &names) {
            let written = after.get(..len).unwrap_or_default();
            mentioned.push((written, member));
        }
    }
    mentioned
}

/// Whether the character before an `@` makes it part of an address, a path or a word.
fn joins(c: char) -> bool {
    matches!(
        c,
        '.' | '_' | '%' | '+' | '-' | '/' | '@' | '\\' | ':' | '='
    ) || in_word(c)
}

/// Whether a character belongs to a word. In scripts that write no blanks between words, no character does: there is a
/// boundary at each.
fn in_word(c: char) -> bool {
    let no_blanks = matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{2e80}'..='\u{9fff}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}');
    c == '_' || c.is_alphanumeric() && !no_blanks
}

/// The longest name at the start of `text`, followed by a word boundary.
fn longest<'t>(text: &str, names: &[(String, &'t Member)]) -> Option<(usize, &'t Member)> {
    let mut best = None;
    if text.starts_with(char::is_whitespace) {
        return None;
    }
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let end = at + c.len_utf8();
        let next = chars.peek().map(|(_, next)| *next);
        if c == '\n' || end > WRITTEN_BYTES_MAX {
            break;
        }
        let key = alike(text.get(..end)?);
        if let Some((_, member)) = names.iter().find(|(name, _)| *name == key) {
            let after = text.get(end..).unwrap_or_default();
            if !c.is_whitespace() && is_border(after) {
                best = Some((end, *member));
            }
        }
        // A combining mark that follows may still change this character, so the search goes one character further.
        let composed = next.is_some_and(unicode_normalization::char::is_combining_mark);
        if !composed && !names.iter().any(|(name, _)| name.starts_with(&key)) {
            break;
        }
    }
    best
}

/// Whether a word ends before `after`.
fn is_border(after: &str) -> bool {
    let mut chars = after.chars();
    match chars.next() {
        None => true,
        Some('.' | '-' | '@') => !chars.next().is_some_and(in_word),
        Some(c) => !in_word(c),
    }
}
