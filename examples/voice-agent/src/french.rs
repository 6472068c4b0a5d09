//! Interprets callers' utterances about appointments by their words alone, without a model.

mod choice;

use jiff::civil::Weekday;

pub(crate) use choice::Choice;

/// The meaning of an utterance.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Understood {
    pub(crate) yes: bool,
    pub(crate) no: bool,
    /// Whether it contains a no, even next to a yes.
    pub(crate) negated: bool,
    /// The choice among proposed slots.
    pub(crate) choice: Choice,
    /// A telephone number: a plus and digits.
    pub(crate) phone: Option<String>,
    /// Whether the caller wants a human being.
    pub(crate) human: bool,
}

/// Words for yes. This and all other lists are in lower case without accents.
const YES: &[&str] = &[
    "oui",
    "ouais",
    "accord",
    "ok",
    "parfait",
    "volontiers",
    "exact",
    "exactement",
];
const NO: &[&str] = &["non", "nan", "aucun", "aucune", "pas", "autre", "autres"];
const HUMAN: &[&str] = &[
    "conseiller",
    "conseillere",
    "humain",
    "secretaire",
    "operateur",
    "quelqu",
];
const NUMBERS: &[&[&str]] = &[
    &["1", "1er", "premier", "premiere"],
    &["2", "2e", "deux", "deuxieme", "second", "seconde"],
    &["3", "3e", "trois", "troisieme"],
];
const DAYS: &[(&str, Weekday)] = &[
    ("lundi", Weekday::Monday),
    ("mardi", Weekday::Tuesday),
    ("mercredi", Weekday::Wednesday),
    ("jeudi", Weekday::Thursday),
    ("vendredi", Weekday::Friday),
    ("samedi", Weekday::Saturday),
    ("dimanche", Weekday::Sunday),
];

/// Interprets an utterance. If it contains both yes and no, neither counts.
pub(crate) fn understand(text: &str) -> Understood {
    let words = words(text);
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let (yes, no) = (has(YES), has_no(&words));
    Understood {
        yes: yes && !no,
        no: no && !yes,
        negated: no,
        choice: choice::choice(text),
        phone: phone(text),
        human: has(HUMAN),
    }
}

/// Whether the words contain a refusal; « pas de souci » and « pourquoi pas » are none.
fn has_no(words: &[String]) -> bool {
    let word_at = |at: Option<usize>| at.and_then(|at| words.get(at)).map(String::as_str);
    words.iter().enumerate().any(|(at, word)| {
        let is_polite = word == "pas"
            && (word_at(at.checked_sub(1)) == Some("pourquoi")
                || matches!(word_at(Some(at + 2)), Some("souci" | "soucis" | "probleme")));
        NO.contains(&word.as_str()) && !is_polite
    })
}

/// The ordinal that a word names, from 1. « un », which is also an article, names none.
fn number_of(word: &str) -> Option<usize> {
    let at = NUMBERS.iter().position(|names| names.contains(&word));
    at.map(|at| at + 1)
}

fn day_of(word: &str) -> Option<Weekday> {
    let found = DAYS.iter().find(|(name, _)| *name == word);
    found.map(|(_, day)| *day)
}

/// Whether two texts have the same words.
pub(crate) fn same_words(one: &str, other: &str) -> bool {
    words(one) == words(other)
}

/// Whether a text ends with the words of another.
pub(crate) fn ends_with(text: &str, end: &str) -> bool {
    let end = words(end);
    !end.is_empty() && words(text).ends_with(&end)
}

/// The French name of a day of the week.
pub(crate) fn day_name(day: Weekday) -> &'static str {
    let found = DAYS.iter().find(|(_, other)| *other == day);
    found.map_or("", |(name, _)| name)
}

/// The first day of the week that a text names in French.
pub(crate) fn day_named(name: &str) -> Option<Weekday> {
    words(name).iter().find_map(|word| day_of(word))
}

/// A telephone number: nine to fifteen digits, French ones with the country's prefix.
pub(crate) fn phone(text: &str) -> Option<String> {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !(9..=15).contains(&digits.len()) {
        return None;
    }
    Some(match digits.strip_prefix('0') {
        Some(rest) if digits.len() == 10 => format!("+33{rest}"),
        _ => format!("+{digits}"),
    })
}

/// The name that the caller gives, without « je m'appelle » and the like; `None` if the text is not a name.
pub(crate) fn name(text: &str) -> Option<String> {
    const LEADING: &[&str] = &[
        "oui", "bonjour", "je", "m", "appelle", "suis", "mon", "nom", "est", "moi", "c", "madame",
        "monsieur",
    ];
    let spoken = text.split(|c: char| !(c.is_alphabetic() || c == '-'));
    let rest: Vec<String> = spoken
        .filter(|word| !word.is_empty())
        .skip_while(|word| LEADING.contains(&plain(word).as_str()))
        .map(capitalized)
        .collect();
    (1..=4).contains(&rest.len()).then(|| rest.join(" "))
}

/// The word with an upper-case first letter.
fn capitalized(word: &str) -> String {
    let mut chars = word.chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    first.chain(chars).collect()
}

/// The words of a text, in lower case without accents.
fn words(text: &str) -> Vec<String> {
    plain(text)
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The text in lower case without accents.
fn plain(text: &str) -> String {
    let bare = |c: char| match c {
        'à' | 'â' => 'a',
        'é' | 'è' | 'ê' | 'ë' => 'e',
        'î' | 'ï' => 'i',
        'ô' => 'o',
        'ù' | 'û' => 'u',
        'ç' => 'c',
        other => other,
    };
    text.to_lowercase().chars().map(bare).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yes_and_no_are_understood() {
        assert!(understand("D'accord").yes && understand("Non merci").no);
        let both = understand("oui, enfin non");
        assert!(!both.yes && !both.no && both.negated);
        assert!(!understand("pas de souci").negated && !understand("pourquoi pas").negated);
        assert!(understand("passez-moi un conseiller").human);
    }

    #[test]
    fn names_and_numbers_are_understood() {
        assert_eq!(
            name("Je m'appelle jeanne Petit-Jean").as_deref(),
            Some("Jeanne Petit-Jean")
        );
        assert_eq!(name("Martin").as_deref(), Some("Martin"));
        assert_eq!(name("…"), None);
        assert_eq!(
            phone("c'est le 06 12 34 56 78").as_deref(),
            Some("+33612345678")
        );
        assert_eq!(phone("+33 6 12 34 56 78").as_deref(), Some("+33612345678"));
        assert_eq!(phone("le 2"), None);
    }
}
