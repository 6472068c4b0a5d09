//! What serde says of a value, in the words of an API.

use filrouge_types::ErrorCode;

use crate::problem::Problem;

/// Most characters of a caller's text that are said back.
const SAID_MAX: usize = 100;

/// What is wrong, and what would have been right if that is a list of words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) what: String,
    pub(super) known: Option<String>,
    /// Whether it is about a value, and not about which of them are there.
    pub(super) is_of_value: bool,
}

/// What number readers say of a text, and what is said instead.
const NUMBERS: [(&str, &str); 4] = [
    (
        "invalid digit found in string",
        "no whole number, 0 or more",
    ),
    (
        "cannot parse integer from empty string",
        "no whole number, 0 or more",
    ),
    (
        "number too large to fit in target type",
        "no whole number, 0 or more",
    ),
    (
        "provided string was not `true` or `false`",
        "neither true nor false",
    ),
];

impl Words {
    /// Takes serde's sentence about a `member`, or a `parameter`, apart; one that is not known stays as it is.
    pub(super) fn of(said: &str, member: &str) -> Self {
        let about = |what: String, known: Option<&str>| Self {
            what,
            known: known.map(|k| {
                let words = k.trim_start_matches("one of ");
                words.replace(" or ", ", ")
            }),
            is_of_value: false,
        };
        let quoted = |before: &str| said.strip_prefix(before)?.split_once('`');
        if let Some((name, rest)) = quoted("unknown field `") {
            let what = match member {
                "member" => "there is no such member".to_owned(),
                member => format!("there is no {member} {:?}", short(name)),
            };
            return about(what, rest.strip_prefix(", expected "));
        }
        if let Some((name, _)) = quoted("missing field `") {
            return about(format!("the {member} `{name}` is missing"), None);
        }
        if let Some((name, _)) = quoted("duplicate field `") {
            return about(format!("the {member} `{name}` is there twice"), None);
        }
        if let Some((_, words)) = quoted("unknown variant `").filter(|_| member == "parameter") {
            let known = words.trim_start_matches(", expected ").replace('`', "");
            return Self {
                is_of_value: true,
                ..about("not known".to_owned(), Some(&known))
            };
        }
        let number = NUMBERS.iter().find(|(theirs, _)| *theirs == said);
        let (what, known) = match said.rsplit_once("; known: ") {
            Some((what, known)) => (short(what), Some(known.to_owned())),
            None => (
                number.map_or_else(|| short(said), |(_, ours)| (*ours).to_owned()),
                None,
            ),
        };
        Self {
            what,
            known,
            is_of_value: true,
        }
    }

    /// The refusal of what stands at `place`; an empty one is the whole.
    pub(super) fn about(self, place: &str) -> Problem {
        let detail = if place.is_empty() {
            self.what
        } else {
            format!("{place}: {}", self.what)
        };
        let problem = Problem::new(ErrorCode::Invalid, detail);
        match self.known {
            Some(known) => problem.with_hint(format!("known: {known}")),
            None => problem,
        }
    }
}

/// A text that may be a caller's, cut when it is long: beginning and end are kept.
pub(super) fn short(text: &str) -> String {
    let length = text.chars().count();
    if length <= 2 * SAID_MAX {
        return text.to_owned();
    }
    let head: String = text.chars().take(SAID_MAX).collect();
    let tail: String = text.chars().skip(length - SAID_MAX).collect();
    format!("{head}…{tail}")
}
