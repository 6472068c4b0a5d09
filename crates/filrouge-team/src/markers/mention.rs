//! `@name` in what somebody says.

use std::ops::Range;

use crate::team::{Member, Team, alike};

/// A name is looked for in so many bytes; the longest has 200, and may be written in wider forms.
const WRITTEN_BYTES_MAX: usize = 800;

/// Who is mentioned, in order, as it is written. Code holds no mentions.
pub(super) fn mentions<'c, 't>(
    content: &'c str,
    code: &[Range<usize>],
    team: &'t Team,
) -> Vec<(&'c str, &'t Member)> {
    let mut found = Vec::new();
    if !content.contains('@') {
        return found;
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
        let behind = content.get(at + 1..).unwrap_or_default();
        if let Some((len, member)) = longest(behind, &names) {
            let written = behind.get(..len).unwrap_or_default();
            found.push((written, member));
        }
    }
    found
}

/// Whether a character makes what follows the `@` part of an address, a path or a word.
fn joins(c: char) -> bool {
    matches!(
        c,
        '.' | '_' | '%' | '+' | '-' | '/' | '@' | '\\' | ':' | '='
    ) || in_word(c)
}

/// Whether words go on over a character. Scripts that put no blanks between words have borders everywhere.
fn in_word(c: char) -> bool {
    let no_blanks = matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{2e80}'..='\u{9fff}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}');
    c == '_' || c.is_alphanumeric() && !no_blanks
}

/// The longest name that `text` begins with, as a whole word.
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
            let behind = text.get(end..).unwrap_or_default();
            if !c.is_whitespace() && is_border(behind) {
                best = Some((end, *member));
            }
        }
        // A mark that follows may change the character that it belongs to.
        let composed = next.is_some_and(unicode_normalization::char::is_combining_mark);
        if !composed && !names.iter().any(|(name, _)| name.starts_with(&key)) {
            break;
        }
    }
    best
}

fn is_border(behind: &str) -> bool {
    let mut chars = behind.chars();
    match chars.next() {
        None => true,
        Some('.' | '-' | '@') => !chars.next().is_some_and(in_word),
        Some(c) => !in_word(c),
    }
}
