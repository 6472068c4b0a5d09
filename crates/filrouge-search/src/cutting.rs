//! Cuts excerpts out of texts. An excerpt is one line, with the match between `«` and `»`. Credentials are masked, and
//! a cut never splits one. All positions and ranges are in bytes.

use std::ops::Range;

use unicode_normalization::char::is_combining_mark;

/// The number of characters shown before a match, and of those shown after it.
const CONTEXT_CHARS: usize = 80;
/// The maximum number of characters of a match that are shown.
const MAX_MATCH_CHARS: usize = 300;
/// The maximum number of additional characters shown so that a cut does not split a grapheme.
const MAX_GRAPHEME_EXTRA: usize = 16;
/// The text that replaces a credential. It does not show the credential's length or form, because a search for parts of
/// a credential must reveal nothing.
const MASK: &str = "[masked]";

/// Returns an excerpt: the match at `matched` with the text around it. Also returns the range of the match in the
/// excerpt, without its marks, and the position in `text` at which the excerpt ends. `hidden` contains the ranges of
/// credentials, in order.
pub(crate) fn excerpt_around(
    text: &str,
    matched: Range<usize>,
    hidden: &[Range<usize>],
) -> (String, Range<usize>, usize) {
    let matched = extend_over_credentials(matched, hidden);
    let from = credential_at(position_before(text, matched.start), hidden).start;
    let to = credential_at(position_after(text, matched.end, CONTEXT_CHARS), hidden).end;
    let shown = credential_at(position_after(text, matched.start, MAX_MATCH_CHARS), hidden)
        .end
        .min(matched.end);
    let mut out = String::new();
    if from > 0 {
        out.push('…');
    }
    push_masked(&mut out, text, from..matched.start, hidden);
    out.push('«');
    let marked = out.len();
    push_masked(&mut out, text, matched.start..shown, hidden);
    if shown < matched.end {
        out.push('…');
    }
    let marked = marked..out.len();
    out.push('»');
    push_masked(&mut out, text, matched.end..to, hidden);
    if to < text.len() {
        out.push('…');
    }
    let end = if shown < matched.end { shown } else { to };
    (out, marked, end)
}

/// Returns the beginning of a text as an excerpt without a match.
pub(crate) fn beginning(text: &str, hidden: &[Range<usize>]) -> String {
    let to = credential_at(position_after(text, 0, 2 * CONTEXT_CHARS), hidden).end;
    let mut out = String::new();
    push_masked(&mut out, text, 0..to, hidden);
    if to < text.len() {
        out.push('…');
    }
    out
}

/// Sorts ranges and merges those that overlap or touch.
pub(crate) fn merge_ranges(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|one| one.start);
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Extends the range of a match so that it contains every credential with which it overlaps.
fn extend_over_credentials(mut matched: Range<usize>, hidden: &[Range<usize>]) -> Range<usize> {
    for credential in hidden {
        // An empty match inside a credential counts, too.
        let overlaps = credential.start < matched.end && matched.start < credential.end;
        if overlaps || credential.contains(&matched.start) {
            matched = matched.start.min(credential.start)..matched.end.max(credential.end);
        }
    }
    matched
}

/// The range of the credential that a cut at this position would split, or the empty range at the position.
fn credential_at(at: usize, hidden: &[Range<usize>]) -> Range<usize> {
    let is_split = |range: &&Range<usize>| range.start < at && at < range.end;
    hidden.iter().find(is_split).cloned().unwrap_or(at..at)
}

/// The position about [`CONTEXT_CHARS`] characters before `at`.
fn position_before(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    let mut preceding = before.char_indices().rev();
    let mut first = (at, text.get(at..).and_then(|t| t.chars().next()));
    for (shown, (start, c)) in preceding.by_ref().enumerate() {
        let is_boundary = || !first.1.is_some_and(|first| is_one_grapheme(c, first));
        if shown >= CONTEXT_CHARS && (is_boundary() || shown >= CONTEXT_CHARS + MAX_GRAPHEME_EXTRA)
        {
            break;
        }
        first = (start, Some(c));
    }
    first.0
}

/// The position about `chars` characters after `at`.
fn position_after(text: &str, at: usize, chars: usize) -> usize {
    let after = text.get(at..).unwrap_or_default();
    let mut last = None;
    for (shown, (end, c)) in after.char_indices().enumerate() {
        let is_boundary = || !last.is_some_and(|last| is_one_grapheme(last, c));
        if shown >= chars && (is_boundary() || shown >= chars + MAX_GRAPHEME_EXTRA) {
            return at + end;
        }
        last = Some(c);
    }
    text.len()
}

/// Whether two adjacent characters belong to one grapheme, such as a letter and its mark, or two parts of an emoji.
fn is_one_grapheme(first: char, second: char) -> bool {
    const JOINER: char = '\u{200d}';
    first == JOINER
        || matches!(second, JOINER | '\u{fe00}'..='\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}')
        || is_combining_mark(second)
}

/// Appends a piece of the text, with credentials masked. Line feeds and other control characters become spaces, so that
/// the excerpt is one line.
fn push_masked(out: &mut String, text: &str, piece: Range<usize>, hidden: &[Range<usize>]) {
    let push_plain = |out: &mut String, piece: Range<usize>| {
        let piece = text.get(piece).unwrap_or_default();
        out.extend(piece.chars().map(|c| match c {
            '\u{2028}' | '\u{2029}' => ' ',
            c if c.is_control() => ' ',
            c => c,
        }));
    };
    let mut at = piece.start;
    for credential in hidden {
        if credential.start >= at && credential.end <= piece.end {
            push_plain(out, at..credential.start);
            out.push_str(MASK);
            at = credential.end;
        }
    }
    push_plain(out, at..piece.end);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, hit: &str, hidden: &[&str]) -> String {
        let range_of = |part: &&str| {
            let at = text.find(part)?;
            Some(at..at + part.len())
        };
        let hidden: Vec<Range<usize>> = hidden.iter().filter_map(range_of).collect();
        excerpt_around(text, range_of(&hit).unwrap(), &hidden).0
    }

    #[test]
    fn the_range_is_that_of_the_match_whatever_the_text_contains() {
        for text in [
            "the «gate» and «the gate»",
            "» the gate «",
            "\n«\u{1}» the gate",
        ] {
            let at = text.rfind("gate").unwrap();
            let hit = at..at + 4;
            let (cut, marked, _) = excerpt_around(text, hit.clone(), &[]);
            assert_eq!(cut[marked.clone()], text[hit], "{text}");
            assert!(cut[..marked.start].ends_with('«') && cut[marked.end..].starts_with('»'));
        }
    }

    #[test]
    fn an_excerpt_is_one_line_with_the_match_marked() {
        assert_eq!(cut("one\ntwo\tthree", "two", &[]), "one «two» three");
        let long = format!("{}é{}", "ä".repeat(100), "ö".repeat(100));
        assert_eq!(
            cut(&long, "é", &[]),
            format!("…{}«é»{}…", "ä".repeat(80), "ö".repeat(80))
        );
        let all = "x".repeat(1000);
        assert_eq!(cut(&all, &all, &[]), format!("«{}…»", "x".repeat(300)));
    }

    #[test]
    fn graphemes_are_not_split() {
        let (family, wave) = ("👩\u{200d}👩\u{200d}👧", "👋\u{1f3fd}");
        for whole in [family, wave, "e\u{301}\u{327}", "❤\u{fe0f}"] {
            for pad in 70..=82 {
                let pad = "-".repeat(pad);
                let text = format!("{whole}{pad} hit {pad}{whole}");
                let shown = cut(&text, "hit", &[]);
                let rest = shown.replace(whole, "");
                assert!(rest.chars().all(|c| "-… «»hit".contains(c)), "{shown}");
            }
            let long = format!("{}{whole}{}", "h".repeat(298), "i".repeat(20));
            let shown = cut(&long, &long, &[]);
            assert!(
                shown.ends_with(&format!("{whole}…»")) || !shown.contains(whole),
                "{shown}"
            );
            assert!(
                shown
                    .replace(whole, "")
                    .chars()
                    .all(|c| "h…«»i".contains(c)),
                "{shown}"
            );
        }
        // The length of an excerpt is limited even if the text contains a long sequence of marks.
        let marks = format!("{0}a{0} hit {0}a{0}", "\u{301}".repeat(300));
        assert!(
            cut(&marks, "hit", &[]).chars().count() < 2 * (CONTEXT_CHARS + MAX_GRAPHEME_EXTRA) + 10
        );
    }

    #[test]
    fn no_part_of_a_credential_is_shown() {
        let text = "key SECRET-1 and SECRET-2 end";
        let hidden = ["SECRET-1", "SECRET-2"];
        assert_eq!(
            cut(text, "CRET-1", &hidden),
            "key «[masked]» and [masked] end"
        );
        assert_eq!(
            cut(text, "1 an", &hidden),
            "key «[masked] an»d [masked] end"
        );
        assert_eq!(cut(text, "and", &hidden), "key [masked] «and» [masked] end");
        let far = format!("SECRET-1{} hit {}SECRET-2", " ".repeat(77), " ".repeat(77));
        assert!(cut(&far, "hit", &hidden).starts_with("[masked] "));
        assert!(cut(&far, "hit", &hidden).ends_with(" [masked]"));
        let long = format!("{}SECRET-1{}", "a".repeat(296), "b".repeat(100));
        let shown = cut(&long, &long, &hidden);
        assert_eq!(shown, format!("«{}[masked]…»", "a".repeat(296)));
    }

    #[test]
    fn ranges_that_touch_are_merged() {
        assert_eq!(merge_ranges(vec![5..7, 0..2, 6..9, 9..10]), [0..2, 5..10]);
    }
}
