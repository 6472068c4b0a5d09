//! Folds texts for comparison: to lower case, without diacritics, with one form for canonical equivalents (DESIGN §10).
//!
//! Folding removes: case; the marks U+0300 to U+036F, also within letters (`é` becomes `e`, `й` becomes `и`); full
//! width; the ligatures and strokes that people omit when typing (`œ`, `æ`, `ß`, `ø`, `ł`, `đ`, `ı`, `ſ`, `ﬁ`). Other
//! scripts keep their marks, composed: `が` is not `か`.

use std::borrow::Cow;
use std::ops::Range;

use unicode_normalization::char::{
    canonical_combining_class, compose, decompose_canonical, decompose_compatible,
};

/// Folds a text.
pub fn fold(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        if text.bytes().any(|b| b.is_ascii_uppercase()) {
            return Cow::Owned(text.to_ascii_lowercase());
        }
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for_each_cluster(text, &mut |_, folded| {
        out.push_str(folded);
        true
    });
    Cow::Owned(out)
}

/// The range in `text` that corresponds to a range of its folded form, extended to entire characters with their marks.
pub fn unfolded_range(text: &str, piece: Range<usize>) -> Range<usize> {
    if text.is_ascii() {
        return piece;
    }
    let (mut folded_at, mut range) = (0, None::<Range<usize>>);
    for_each_cluster(text, &mut |cluster, folded| {
        let folded_end = folded_at + folded.len();
        if folded_end > piece.start && range.is_none() {
            range = Some(cluster.clone());
        }
        if let Some(range) = &mut range
            && (folded_at < piece.end || folded.is_empty())
        {
            range.end = cluster.end;
        }
        folded_at = folded_end;
        folded_at < piece.end
    });
    range.unwrap_or(text.len()..text.len())
}

/// Splits a text into the pieces that fold as a unit. Calls `visit` with the range and the folded form of each piece,
/// until `visit` returns `false`.
fn for_each_cluster(text: &str, visit: &mut impl FnMut(Range<usize>, &str) -> bool) {
    let mut folded = String::new();
    let mut start = 0;
    let mut base: Option<char> = None;
    for (at, c) in text.char_indices() {
        if is_mark(c) {
            continue;
        }
        if may_combine(c) && base.is_some() {
            compose_with_base(c, &mut base, &mut folded);
            continue;
        }
        if at > start {
            push_lower(base.take(), &mut folded);
            if !visit(start..at, &folded) {
                return;
            }
            folded.clear();
        }
        start = at;
        base = None;
        if c.is_ascii() {
            base = Some(c);
        } else {
            decompose(c, &mut |c| compose_with_base(c, &mut base, &mut folded));
        }
    }
    push_lower(base, &mut folded);
    if start < text.len() {
        visit(start..text.len(), &folded);
    }
}

/// Whether a character is a mark that folding removes.
const fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36F}')
}

/// Whether a character may combine with the one before it.
fn may_combine(c: char) -> bool {
    !c.is_ascii()
        && (matches!(c, '\u{1161}'..='\u{1175}' | '\u{11A8}'..='\u{11C2}')
            || canonical_combining_class(c) != 0)
}

/// Calls `visit` with the decomposition of a character, without marks.
fn decompose(c: char, visit: &mut impl FnMut(char)) {
    let is_compatibility_form =
        matches!(c, '\u{FF01}'..='\u{FF5E}' | '\u{FB00}'..='\u{FB06}' | '\u{3000}');
    let visit_unmarked = |c: char| {
        if !is_mark(c) {
            visit(c);
        }
    };
    if is_compatibility_form {
        decompose_compatible(c, visit_unmarked);
    } else {
        decompose_canonical(c, visit_unmarked);
    }
}

/// Composes a character with `base` if possible. Otherwise appends the old base to `folded`, and the character becomes
/// the base.
fn compose_with_base(c: char, base: &mut Option<char>, folded: &mut String) {
    match base.and_then(|base| compose(base, c)) {
        Some(composed) => *base = Some(composed),
        None => push_lower(base.replace(c), folded),
    }
}

/// Appends the lower case of a character to `folded`, with ligatures and strokes replaced.
fn push_lower(c: Option<char>, folded: &mut String) {
    let Some(c) = c else { return };
    for c in c.to_lowercase() {
        match c {
            'ß' => folded.push_str("ss"),
            'œ' => folded.push_str("oe"),
            'æ' => folded.push_str("ae"),
            'ø' => folded.push('o'),
            'ł' => folded.push('l'),
            'đ' => folded.push('d'),
            'ı' => folded.push('i'),
            'ſ' => folded.push('s'),
            'ς' => folded.push('σ'),
            c if is_mark(c) => {}
            c => folded.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unicode_normalization::UnicodeNormalization;

    use super::*;

    #[test]
    fn different_spellings_fold_alike() {
        for (text, folded) in [
            ("Été À Zürich", "ete a zurich"),
            ("STRASSE straße ẞ", "strasse strasse ss"),
            (
                "Œuvre, Æther, Øre, Łódź, Đà Nẵng",
                "oeuvre, aether, ore, lodz, da nang",
            ),
            ("İstanbul ıſK Å", "istanbul isk a"),
            ("ＦＵＬＬ　ｗｉｄｔｈ！", "full width!"),
            ("ﬁne oﬃce", "fine office"),
            ("ΣΊΣΥΦΟΣ", "σισυφοσ"),
            ("Ёлка й", "елка и"),
            ("が か ハ゜ 한국어", "が か ハ゜ 한국어"),
            ("snake_case camelCase", "snake_case camelcase"),
        ] {
            assert_eq!(fold(text), folded, "{text}");
        }
    }

    #[test]
    fn marks_that_distinguish_words_are_kept() {
        assert_ne!(fold("が"), fold("か"));
        assert_eq!(fold("\u{304B}\u{3099}"), fold("が"));
        assert_eq!(fold("\u{1112}\u{1161}\u{11AB}"), fold("한"));
        assert_eq!(fold("\u{958}"), fold("\u{915}\u{93C}"));
    }

    #[test]
    fn ranges_include_entire_characters_with_their_marks() {
        let text = "xe\u{301}\u{302}ß한y";
        let folded = fold(text);
        assert_eq!(folded, "xess한y");
        let shown = |piece: &str| {
            let at = folded.find(piece).unwrap();
            &text[unfolded_range(text, at..at + piece.len())]
        };
        assert_eq!(shown("e"), "e\u{301}\u{302}");
        assert_eq!(shown("xe"), "xe\u{301}\u{302}");
        assert_eq!(shown("es"), "e\u{301}\u{302}ß");
        assert_eq!(shown("s한"), "ß한");
        assert_eq!(shown("y"), "y");
    }

    proptest! {
        #[test]
        fn folding_ignores_normalization_and_is_idempotent(text in "[a-zA-Z éÉßœİſ한국がぱ\u{3099}\u{301}\u{302}ＡＢйñ中文\u{1100}-\u{11ff}]{0,12}") {
            let folded = fold(&text);
            let [composed, decomposed]: [String; 2] = [text.nfc().collect(), text.nfd().collect()];
            prop_assert_eq!(&folded, &fold(&composed));
            prop_assert_eq!(&folded, &fold(&decomposed));
            prop_assert_eq!(&fold(&folded), &folded);
        }

        #[test]
        fn ranges_cover_the_folded_text(text in "[a-zé ß한が\u{3099}\u{301}Ａ]{0,12}", from in 0usize..8, len in 1usize..5) {
            let folded = fold(&text).into_owned();
            let ends: Vec<usize> = folded.char_indices().map(|(at, _)| at).chain([folded.len()]).collect();
            let (from, to) = (from.min(ends.len() - 1), (from + len).min(ends.len() - 1));
            if from < to {
                let here = unfolded_range(&text, ends[from]..ends[to]);
                let shown = fold(&text[here]).into_owned();
                prop_assert!(shown.contains(&folded[ends[from]..ends[to]]), "{:?} {:?}", shown, folded);
            }
        }
    }
}
