//! The title of a session that nobody has titled: the first words of its first question.

use filrouge_types::ItemBody;

/// The maximum number of characters of a derived title, without the ellipsis.
const CHARS_MAX: usize = 60;
/// Ends a stored title that was derived. Titles of callers contain no NUL.
const MARK: char = '\0';

/// The derived title of a session whose first question is this item, as it is stored; `None` if the item has no words.
pub fn derived_title(question: &ItemBody) -> Option<Box<str>> {
    let text = question.text()?.to_plain();
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let (mut title, mut room) = (String::new(), CHARS_MAX);
    for word in words.filter(|word| !word.is_empty()) {
        let chars = word.chars().count() + usize::from(!title.is_empty());
        if chars > room {
            if title.is_empty() {
                title.extend(word.chars().take(room));
            }
            title.push('…');
            break;
        }
        if !title.is_empty() {
            title.push(' ');
        }
        title.push_str(word);
        room -= chars;
    }
    if title.is_empty() {
        return None;
    }
    title.push(MARK);
    Some(title.into())
}

/// A stored title as callers see it, and whether it was derived.
pub(super) fn read_title(stored: Option<Box<str>>) -> (Option<Box<str>>, bool) {
    let words = stored.as_deref().and_then(|title| title.strip_suffix(MARK));
    match words.map(Box::from) {
        Some(words) => (Some(words), true),
        None => (stored, false),
    }
}

/// Whether a stored title consists of the first words of this question, whoever set it.
pub(crate) fn is_title_of(stored: &str, question: &ItemBody) -> bool {
    let words = stored.trim_end_matches(MARK);
    derived_title(question).is_some_and(|title| title.trim_end_matches(MARK) == words)
}

#[cfg(test)]
mod tests {
    use filrouge_types::{Channel, JsonText, Role, Variant};

    use super::*;

    fn title(question: &str) -> Option<String> {
        let text = JsonText::from_plain(question);
        let item = ItemBody::from_text(Role::User, Channel::Question, Variant::Neutral, &text);
        let stored = derived_title(&item);
        assert!(stored.iter().all(|title| is_title_of(title, &item)));
        let (title, is_derived) = read_title(stored);
        assert_eq!(is_derived, title.is_some());
        title.map(Into::into)
    }

    #[test]
    fn a_title_is_the_first_words_on_one_line() {
        let (long, cut) = ("x".repeat(100), "x".repeat(60) + "…");
        for (question, expected) in [
            ("Which way?", Some("Which way?")),
            (" Which\n\tway?\0 ", Some("Which way?")),
            ("", None),
            (" \n", None),
            (
                "Please compare these three hotels in Knossos and book the cheapest one",
                Some("Please compare these three hotels in Knossos and book the…"),
            ),
            (long.as_str(), Some(cut.as_str())),
        ] {
            assert_eq!(title(question).as_deref(), expected, "{question}");
        }
        let exact = "é".repeat(60);
        assert_eq!(title(&exact), Some(exact));
    }

    #[test]
    fn a_title_of_a_caller_is_not_derived() {
        let own = Some("Which way?".into());
        assert_eq!(read_title(own.clone()), (own, false));
        assert_eq!(read_title(None), (None, false));
    }
}
