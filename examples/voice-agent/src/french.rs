//! What callers say, as far as an appointment needs it. Words and spellings alone: no model.

use jiff::civil::Weekday;

/// What an utterance holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Understood {
    pub(crate) yes: bool,
    pub(crate) no: bool,
    /// Which of the proposed ones, from 1.
    pub(crate) number: Option<usize>,
    pub(crate) day: Option<Weekday>,
    /// A telephone number, as digits behind a plus.
    pub(crate) phone: Option<String>,
    /// Somebody wants a human being.
    pub(crate) human: bool,
}

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

/// Understands an utterance. Where somebody says yes and no, neither counts.
pub(crate) fn understand(text: &str) -> Understood {
    let words = words(text);
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let (yes, no) = (has(YES), has(NO));
    let phone = phone(text);
    Understood {
        yes: yes && !no,
        no: no && !yes,
        number: if phone.is_some() {
            None
        } else {
            number(&words)
        },
        day: day(&words),
        phone,
        human: has(HUMAN),
    }
}

fn number(words: &[String]) -> Option<usize> {
    let named = |word: &String| NUMBERS.iter().position(|n| n.contains(&word.as_str()));
    if let Some(at) = words.iter().find_map(named) {
        return Some(at + 1);
    }
    // « un » is an article as well.
    let one = |pair: &[String]| ["le", "numero"].contains(&pair[0].as_str()) && pair[1] == "un";
    let alone = matches!(words, [word] if word == "un");
    (alone || words.windows(2).any(one)).then_some(1)
}

fn day(words: &[String]) -> Option<Weekday> {
    let named = |word: &String| DAYS.iter().find(|(name, _)| name == word);
    words.iter().find_map(named).map(|(_, day)| *day)
}

/// The French name of a day of the week.
pub(crate) fn day_name(day: Weekday) -> &'static str {
    let found = DAYS.iter().find(|(_, other)| *other == day);
    found.map_or("", |(name, _)| name)
}

/// The day of the week of a French name.
pub(crate) fn day_named(name: &str) -> Option<Weekday> {
    day(&words(name))
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

/// The name somebody gives, without « je m'appelle » and the like; `None` for what is no name.
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

fn capitalized(word: &str) -> String {
    let mut chars = word.chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    first.chain(chars).collect()
}

fn words(text: &str) -> Vec<String> {
    plain(text)
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Small letters without accents.
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
    fn choices_are_understood() {
        for (text, number) in [
            ("le 2", Some(2)),
            ("Le deuxième, s'il vous plaît.", Some(2)),
            ("oui, le troisième", Some(3)),
            ("le premier", Some(1)),
            ("le un", Some(1)),
            ("un instant", None),
            ("mardi", None),
            ("06 12 34 56 78", None),
        ] {
            assert_eq!(understand(text).number, number, "{text}");
        }
        assert_eq!(understand("plutôt MARDI").day, Some(Weekday::Tuesday));
        assert!(understand("D'accord").yes && understand("Non merci").no);
        let both = understand("oui, enfin non");
        assert!(!both.yes && !both.no);
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
