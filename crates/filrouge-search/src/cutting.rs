//! Cutting a piece out of a text: one line, the hit between `«` and `»`, credentials masked before anything is cut.

use std::ops::Range;

use unicode_normalization::char::is_combining_mark;

/// How many characters are shown before a hit and behind it.
const AROUND: usize = 80;
/// How many characters of a hit are shown.
const HIT: usize = 300;
/// How many characters more are shown where a cut would part what is read as one.
const JOINED: usize = 16;
/// What stands for a credential. Its shape is not told: a search for parts of it must learn nothing.
const MASK: &str = "[masked]";

/// The hit with what stands around it, and where that ends. `hidden` are the places of credentials, in order.
pub(crate) fn around(text: &str, hit: Range<usize>, hidden: &[Range<usize>]) -> (String, usize) {
    let hit = widened(hit, hidden);
    let from = outside(back(text, hit.start), hidden).start;
    let to = outside(ahead(text, hit.end, AROUND), hidden).end;
    let shown = outside(ahead(text, hit.start, HIT), hidden)
        .end
        .min(hit.end);
    let mut out = String::new();
    if from > 0 {
        out.push('…');
    }
    push(&mut out, text, from..hit.start, hidden);
    out.push('«');
    push(&mut out, text, hit.start..shown, hidden);
    if shown < hit.end {
        out.push('…');
    }
    out.push('»');
    push(&mut out, text, hit.end..to, hidden);
    if to < text.len() {
        out.push('…');
    }
    (out, if shown < hit.end { shown } else { to })
}

/// The beginning of a text.
pub(crate) fn beginning(text: &str, hidden: &[Range<usize>]) -> String {
    let to = outside(ahead(text, 0, 2 * AROUND), hidden).end;
    let mut out = String::new();
    push(&mut out, text, 0..to, hidden);
    if to < text.len() {
        out.push('…');
    }
    out
}

/// Ranges in order, one of those that overlap.
pub(crate) fn joined(mut all: Vec<Range<usize>>) -> Vec<Range<usize>> {
    all.sort_by_key(|one| one.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(all.len());
    for one in all {
        match joined.last_mut() {
            Some(last) if one.start <= last.end => last.end = last.end.max(one.end),
            _ => joined.push(one),
        }
    }
    joined
}

/// The hit with the whole of every credential it touches.
fn widened(mut hit: Range<usize>, hidden: &[Range<usize>]) -> Range<usize> {
    for one in hidden {
        let touches = one.start < hit.end && hit.start < one.end;
        if touches || one.contains(&hit.start) {
            hit = hit.start.min(one.start)..hit.end.max(one.end);
        }
    }
    hit
}

/// A place, or the credential in the midst of which it is.
fn outside(at: usize, hidden: &[Range<usize>]) -> Range<usize> {
    let within = |one: &&Range<usize>| one.start < at && at < one.end;
    hidden.iter().find(within).cloned().unwrap_or(at..at)
}

fn back(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    let mut around = before.char_indices().rev();
    let mut first = (at, text.get(at..).and_then(|t| t.chars().next()));
    for (shown, (start, c)) in around.by_ref().enumerate() {
        let is_whole = || !first.1.is_some_and(|first| joins(c, first));
        if shown >= AROUND && (is_whole() || shown >= AROUND + JOINED) {
            break;
        }
        first = (start, Some(c));
    }
    first.0
}

fn ahead(text: &str, at: usize, chars: usize) -> usize {
    let behind = text.get(at..).unwrap_or_default();
    let mut last = None;
    for (shown, (end, c)) in behind.char_indices().enumerate() {
        let is_whole = || !last.is_some_and(|last| joins(last, c));
        if shown >= chars && (is_whole() || shown >= chars + JOINED) {
            return at + end;
        }
        last = Some(c);
    }
    text.len()
}

/// Whether two characters are read as one: a letter and its marks, the parts of an emoji.
fn joins(first: char, second: char) -> bool {
    const JOINER: char = '\u{200d}';
    first == JOINER
        || matches!(second, JOINER | '\u{fe00}'..='\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}')
        || is_combining_mark(second)
}

/// Adds a piece on one line: line feeds and other control characters become spaces.
fn push(out: &mut String, text: &str, piece: Range<usize>, hidden: &[Range<usize>]) {
    let plain = |out: &mut String, piece: Range<usize>| {
        let piece = text.get(piece).unwrap_or_default();
        out.extend(piece.chars().map(|c| if is_line(c) { ' ' } else { c }));
    };
    let mut at = piece.start;
    for one in hidden {
        if one.start >= at && one.end <= piece.end {
            plain(out, at..one.start);
            out.push_str(MASK);
            at = one.end;
        }
    }
    plain(out, at..piece.end);
}

fn is_line(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, hit: &str, hidden: &[&str]) -> String {
        let place = |part: &&str| {
            let at = text.find(part)?;
            Some(at..at + part.len())
        };
        let hidden: Vec<Range<usize>> = hidden.iter().filter_map(place).collect();
        around(text, place(&hit).unwrap(), &hidden).0
    }

    #[test]
    fn a_line_with_the_hit_marked() {
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
    fn what_is_read_as_one_is_not_cut() {
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
        // However many marks there are, an excerpt ends.
        let marks = format!("{0}a{0} hit {0}a{0}", "\u{301}".repeat(300));
        assert!(cut(&marks, "hit", &[]).chars().count() < 2 * (AROUND + JOINED) + 10);
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
    fn ranges_that_touch_are_one() {
        assert_eq!(joined(vec![5..7, 0..2, 6..9, 9..10]), [0..2, 5..10]);
    }
}
