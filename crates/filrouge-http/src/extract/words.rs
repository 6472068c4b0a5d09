//! Rewords serde's errors for callers of an API.

use filrouge_types::ErrorCode;

use crate::problem::Problem;

/// How many characters from each end of a caller's long text are quoted.
const QUOTED_MAX: usize = 100;

/// The error, and the list of valid values if there is one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) what: String,
    pub(super) known: Option<String>,
    /// Whether the error is about a value, and not about which members are present.
    pub(super) is_of_value: bool,
}

/// Errors of number parsers, and their replacements.
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
    /// Parses serde's message about a `member` or a `parameter`; an unrecognized message is kept.
    pub(super) fn of(message: &str, member: &str) -> Self {
        let about = |what: String, known: Option<&str>| Self {
            what,
            known: known.map(|k| {
                let words = k.trim_start_matches("one of ");
                words.replace(" or ", ", ")
            }),
            is_of_value: false,
        };
        let quoted = |before: &str| message.strip_prefix(before)?.split_once('`');
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
            return about(format!("the {member} `{name}` is given twice"), None);
        }
        if let Some((_, words)) = quoted("unknown variant `").filter(|_| member == "parameter") {
            let known = words.trim_start_matches(", expected ").replace('`', "");
            return Self {
                is_of_value: true,
                ..about("not known".to_owned(), Some(&known))
            };
        }
        let number = NUMBERS.iter().find(|(theirs, _)| *theirs == message);
        let (what, known) = match message.rsplit_once("; known: ") {
            Some((what, known)) => (short(what), Some(known.to_owned())),
            None => (
                number.map_or_else(|| short(message), |(_, ours)| (*ours).to_owned()),
                None,
            ),
        };
        Self {
            what,
            known,
            is_of_value: true,
        }
    }

    /// The problem for the value at `place`; an empty place means the whole input.
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

/// Shortens a text that may come from a caller: of a long one, only the beginning and the end remain.
pub(super) fn short(text: &str) -> String {
    let length = text.chars().count();
    if length <= 2 * QUOTED_MAX {
        return text.to_owned();
    }
    let head: String = text.chars().take(QUOTED_MAX).collect();
    let tail: String = text.chars().skip(length - QUOTED_MAX).collect();
    format!("{head}…{tail}")
}
