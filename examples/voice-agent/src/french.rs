//! Interprets callers' utterances about appointments by their words alone, without a model.

mod choice;

use jiff::civil::Weekday;

pub(crate) use choice::Choice;

/// The meaning of an utterance.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Interpretation {
    pub(crate) yes: bool,
    pub(crate) no: bool,
    /// Whether the utterance contains a no; unlike `no`, also true next to a yes.
    pub(crate) negated: bool,
    /// The choice among proposed slots.
    pub(crate) choice: Choice,
    /// A telephone number: `+` and digits.
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

/// Interprets an utterance. If it contains both yes and no, `yes` and `no` are false.
pub(crate) fn interpret(text: &str) -> Interpretation {
    let words = words(text);
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let (yes, no) = (has(YES), has_no(&words));
    Interpretation {
        yes: yes && !no,
        no: no && !yes,
        negated: no,
        choice: choice::interpret_choice(text),
        phone: phone(text),
        human: has(HUMAN),
    }
}

/// Whether the words contain a refusal; « pas de souci » and « pourquoi pas » are not refusals.
fn has_no(words: &[String]) -> bool {
    let word_at =
        |index: Option<usize>| index.and_then(|index| words.get(index)).map(String::as_str);
    words.iter().enumerate().any(|(index, word)| {
        let is_polite = word == "pas"
            && (word_at(index.checked_sub(1)) == Some("pourquoi")
                || matches!(
                    word_at(Some(index + 2)),
                    Some("souci" | "soucis" | "probleme")
                ));
        NO.contains(&word.as_str()) && !is_polite
    })
}

/// The number that a word names, from 1. Ignores « un », which is also an article.
fn ordinal_of(word: &str) -> Option<usize> {
    let index = NUMBERS.iter().position(|names| names.contains(&word));
    index.map(|index| index + 1)
}

fn weekday_of(word: &str) -> Option<Weekday> {
    let entry = DAYS.iter().find(|(name, _)| *name == word);
    entry.map(|(_, day)| *day)
}

/// Whether two texts have the same words.
pub(crate) fn same_words(a: &str, b: &str) -> bool {
    words(a) == words(b)
}

/// Whether a text ends with the words of another.
pub(crate) fn ends_with(text: &str, end: &str) -> bool {
    let end = words(end);
    !end.is_empty() && words(text).ends_with(&end)
}

/// The French name of a day of the week.
pub(crate) fn day_name(day: Weekday) -> &'static str {
    let entry = DAYS.iter().find(|(_, other)| *other == day);
    entry.map_or("", |(name, _)| name)
}

/// The first day of the week that a text names in French.
pub(crate) fn day_named(name: &str) -> Option<Weekday> {
    words(name).iter().find_map(|word| weekday_of(word))
}

/// Parses a telephone number of nine to fifteen digits. A French number (`0` and nine digits) gets the prefix `+33`.
pub(crate) fn phone(text: &str) -> Option<String> {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !(9..=15).contains(&digits.len()) {
        return None;
    }
    Some(match digits.strip_prefix('0') {
        Some(remaining) if digits.len() == 10 => format!("+33{remaining}"),
        _ => format!("+{digits}"),
    })
}

/// Returns the caller's name, without leading words such as « je m'appelle »; `None` unless one to four words remain.
pub(crate) fn name(text: &str) -> Option<String> {
    const LEADING: &[&str] = &[
        "oui", "bonjour", "je", "m", "appelle", "suis", "mon", "nom", "est", "moi", "c", "madame",
        "monsieur",
    ];
    let spoken = text.split(|c: char| !(c.is_alphabetic() || c == '-'));
    let remaining: Vec<String> = spoken
        .filter(|word| !word.is_empty())
        .skip_while(|word| LEADING.contains(&normalize(word).as_str()))
        .map(capitalized)
        .collect();
    (1..=4)
        .contains(&remaining.len())
        .then(|| remaining.join(" "))
}

/// The word with an upper-case first letter.
fn capitalized(word: &str) -> String {
    let mut chars = word.chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    first.chain(chars).collect()
}

/// The words of a text, in lower case without accents.
fn words(text: &str) -> Vec<String> {
    normalize(text)
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The text in lower case without accents.
fn normalize(text: &str) -> String {
    let without_accent = |c: char| match c {
        'à' | 'â' => 'a',
        'é' | 'è' | 'ê' | 'ë' => 'e',
        'î' | 'ï' => 'i',
        'ô' => 'o',
        'ù' | 'û' => 'u',
        'ç' => 'c',
        other => other,
    };
    text.to_lowercase().chars().map(without_accent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yes_no_and_transfer_requests_are_interpreted() {
        assert!(interpret("D'accord").yes && interpret("Non merci").no);
        let both = interpret("oui, enfin non");
        assert!(!both.yes && !both.no && both.negated);
        assert!(!interpret("pas de souci").negated && !interpret("pourquoi pas").negated);
        assert!(interpret("passez-moi un conseiller").human);
    }

    #[test]
    fn names_and_telephone_numbers_are_interpreted() {
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
