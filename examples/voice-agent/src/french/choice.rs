//! Determines which proposed slots the caller accepts or refuses. A booking cannot be undone by voice, so an ambiguous
//! utterance accepts nothing, and the agent asks again.

use jiff::civil::Weekday;

use super::{normalize, ordinal_of, weekday_of};

/// The choice among the proposed slots that an utterance expresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The number of the accepted slot, from 1.
    pub(crate) number: Option<usize>,
    /// The named day, unless it was refused.
    pub(crate) day: Option<Weekday>,
    /// Whether the utterance contains only neutral words next to `number` or `day`. A `day` is accepted only then.
    pub(crate) has_only_choice: bool,
    /// Numbers that are refused.
    pub(crate) refused_numbers: Vec<usize>,
    /// Days that are refused.
    pub(crate) refused_days: Vec<Weekday>,
    /// Whether the utterance contains a question, or numbers or days that choose no single slot.
    pub(crate) unclear: bool,
}

/// Words that refuse the number or the day after them.
const REFUSING: &[&str] = &["pas", "non", "ni", "sauf", "jamais", "excepte"];
/// Words that may occur between the refusal and the number or day.
const BETWEEN: &[&str] = &[
    "le", "la", "l", "les", "de", "du", "celui", "celle", "numero", "creneau", "un", "ce", "trop",
];
/// Words after which « un » is a number and not an article.
const BEFORE_ONE: &[&str] = &["le", "numero", "creneau", "option", "choix"];
/// Words next to a choice that do not change it.
const NEUTRAL: &[&str] = &[
    "oui",
    "ouais",
    "ok",
    "d",
    "accord",
    "parfait",
    "volontiers",
    "exact",
    "exactement",
    "bien",
    "tres",
    "alors",
    "donc",
    "euh",
    "ben",
    "bah",
    "bon",
    "eh",
    "et",
    "merci",
    "s",
    "il",
    "te",
    "vous",
    "plait",
    "plutot",
    "le",
    "la",
    "l",
    "numero",
    "creneau",
    "option",
    "choix",
    "proposition",
    "celui",
    "celle",
    "de",
    "du",
    "c",
    "ce",
    "est",
    "sera",
    "serait",
    "je",
    "j",
    "on",
    "prends",
    "prend",
    "prendrai",
    "prendrais",
    "veux",
    "voudrais",
    "aimerais",
    "choisis",
    "prefere",
    "garde",
    "me",
    "m",
    "va",
    "irait",
    "convient",
    "conviendrait",
    "arrange",
    "marche",
    "pour",
    "moi",
    "mieux",
    "aussi",
    "matin",
    "aim",
    "madame",
    "monsieur",
    "disons",
    "mettons",
    "allez",
];
/// Words of a question or of a request to wait: such an utterance chooses nothing yet.
const UNDECIDED: &[&str] = &[
    "quand",
    "combien",
    "quel",
    "quelle",
    "quels",
    "quelles",
    "comment",
    "pourquoi",
    "quoi",
    "lequel",
    "laquelle",
    "si",
    "attendez",
    "attends",
    "minute",
    "minutes",
    "instant",
    "question",
    "questions",
    "seconde",
    "secondes",
];
/// The token that represents a pause, whatever its punctuation mark.
const COMMA: &str = ",";

/// Interprets an utterance as a choice among proposed slots.
pub(crate) fn interpret_choice(text: &str) -> Choice {
    let tokens = tokens(text);
    let token_at = |n: Option<usize>| n.and_then(|n| tokens.get(n)).map_or("", String::as_str);
    let mut choice = Choice::default();
    let mut numbers: Vec<(usize, usize)> = Vec::new();
    let mut days = Vec::new();
    for (index, word) in tokens.iter().enumerate() {
        let previous = token_at(index.checked_sub(1));
        let number = match word.as_str() {
            "un" => Some(1).filter(|_| BEFORE_ONE.contains(&previous) || tokens.len() == 1),
            "seconde" | "premiere" if previous != "la" && tokens.len() > 1 => None,
            word => ordinal_of(word),
        };
        let refused = is_refused(&tokens, index);
        match (number, weekday_of(word)) {
            (Some(number), _) if refused => choice.refused_numbers.push(number),
            (Some(number), _) => numbers.push((index, number)),
            (_, Some(day)) if refused => choice.refused_days.push(day),
            (_, Some(day)) => days.push(day),
            _ => {}
        }
    }
    let is_undecided = tokens.iter().any(|word| {
        let is_listed = UNDECIDED.contains(&word.as_str());
        is_listed
            && !(word == "seconde"
                && numbers
                    .iter()
                    .any(|(index, _)| token_at(Some(*index)) == word))
    });
    let has_only_choice = tokens.iter().all(|word| {
        let word = word.as_str();
        word == COMMA
            || NEUTRAL.contains(&word)
            || ordinal_of(word).is_some()
            || is_day(word)
            || word == "un"
    });
    let accepted = numbers.first().filter(|(index, first)| {
        let is_single = numbers.iter().all(|(_, other)| other == first);
        is_single && !is_undecided && (has_only_choice || is_ordinal_choice(&tokens, *index))
    });
    choice.number = accepted.map(|(_, number)| *number);
    let has_digits = tokens
        .iter()
        .any(|word| word.contains(|c: char| c.is_ascii_digit()));
    choice.unclear =
        is_undecided || (choice.number.is_none() && (has_digits || !numbers.is_empty()));
    choice.day = days
        .first()
        .copied()
        .filter(|first| days.iter().all(|day| day == first));
    choice.unclear |= choice.day.is_none() && !days.is_empty();
    choice.has_only_choice = has_only_choice && !is_undecided;
    choice
}

/// Whether the number or day is refused: « pas le 2 », « pas celui de mardi », « non mardi ».
fn is_refused(tokens: &[String], index: usize) -> bool {
    let previous = tokens[..index].iter().rev();
    let mut previous = previous.skip_while(|word| BETWEEN.contains(&word.as_str()));
    match previous.next().map(String::as_str) {
        // « Non le 2 » may also accept the second.
        Some("non") => tokens[index - 1] == "non",
        Some(word) => REFUSING.contains(&word),
        None => false,
    }
}

/// Whether the word is an ordinal that chooses: « mettez-moi le troisième », but not « la première fois ».
fn is_ordinal_choice(tokens: &[String], index: usize) -> bool {
    const ORDINAL: &[&str] = &[
        "1er",
        "premier",
        "premiere",
        "2e",
        "deuxieme",
        "second",
        "seconde",
        "3e",
        "troisieme",
    ];
    let previous = index
        .checked_sub(1)
        .map_or("", |previous| tokens[previous].as_str());
    let following = tokens.get(index + 1).map_or(COMMA, String::as_str);
    let ends_phrase = following == COMMA || NEUTRAL.contains(&following);
    ORDINAL.contains(&tokens[index].as_str()) && ["le", "la"].contains(&previous) && ends_phrase
}

fn is_day(word: &str) -> bool {
    weekday_of(word).is_some()
}

/// Returns the words in lower case without accents, with a comma for each pause between them.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut word = String::new();
    for c in normalize(text).chars().chain(['.']) {
        if c.is_alphanumeric() {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            tokens.push(std::mem::take(&mut word));
        }
        let is_pause = matches!(c, ',' | ';' | '.' | '!' | '?' | ':' | '…');
        if is_pause && tokens.last().is_some_and(|last| last != COMMA) {
            tokens.push(COMMA.to_owned());
        }
    }
    tokens.pop_if(|last| last == COMMA);
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_accepted_alone_or_as_an_ordinal() {
        for (text, number) in [
            ("le 2", Some(2)),
            ("2", Some(2)),
            ("Deux.", Some(2)),
            ("le deux", Some(2)),
            ("numéro 2", Some(2)),
            ("Oui, créneau 2", Some(2)),
            ("le 2 s'il vous plaît", Some(2)),
            ("Le deuxième, s'il vous plaît.", Some(2)),
            ("oui, le troisième", Some(3)),
            ("le premier", Some(1)),
            ("le un", Some(1)),
            ("un", Some(1)),
            ("Mettez-moi le troisième", Some(3)),
            ("la seconde", Some(2)),
            ("un instant", None),
            ("mardi", None),
            ("Attendez deux minutes", None),
            ("j'ai deux questions", None),
            ("une seconde", None),
            ("C'est la première fois", None),
            ("le 2 décembre", None),
            ("le premier décembre", None),
            ("à deux heures", None),
            ("le premier ou le deuxième", None),
            ("le premier, c'est quand ?", None),
            ("Nous sommes deux", None),
        ] {
            assert_eq!(interpret_choice(text).number, number, "{text}");
        }
        for text in [
            "Attendez deux minutes",
            "oui, j'ai deux questions",
            "oui, le 2 décembre",
        ] {
            assert!(interpret_choice(text).unclear, "{text}");
        }
        assert!(!interpret_choice("oui, très bien").unclear);
    }

    #[test]
    fn a_refused_slot_is_not_accepted() {
        for (text, numbers) in [
            ("Non, pas le 2", vec![2]),
            ("pas le deuxième", vec![2]),
            ("pas celui du 2", vec![2]),
            ("ni le 1 ni le 3", vec![1, 3]),
        ] {
            let choice = interpret_choice(text);
            assert_eq!(
                (choice.number, choice.refused_numbers),
                (None, numbers),
                "{text}"
            );
        }
        for text in [
            "Pas mardi",
            "non mardi",
            "je ne peux pas le mardi",
            "pas celui de mardi",
        ] {
            let choice = interpret_choice(text);
            assert_eq!(
                (choice.day, choice.refused_days),
                (None, vec![Weekday::Tuesday]),
                "{text}"
            );
        }
        assert_eq!(
            interpret_choice("pas mardi, mercredi").day,
            Some(Weekday::Wednesday)
        );
        assert!(interpret_choice("plutôt MARDI").has_only_choice);
        assert!(!interpret_choice("mardi je vous rappelle").has_only_choice);
        assert!(!interpret_choice("mardi, c'est à quelle heure ?").has_only_choice);
    }
}
