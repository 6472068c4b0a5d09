//! Rewords serde's error messages for callers of the API.

use filrouge_types::ErrorCode;

use crate::problem::Problem;

/// How many characters are quoted from each end of a long text of a caller.
const QUOTED_MAX: usize = 100;

/// A reworded error, and the list of valid names or values if there is one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) what: String,
    pub(super) known: Option<String>,
    /// Whether the error is about the value of a member. Otherwise it is about an unknown, missing or repeated member.
    pub(super) is_of_value: bool,
}

/// Error messages of the parsers of numbers and booleans, and what replaces them.
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
    /// Rewords a message of serde. `member` is the word for what the message is about: `member` or `parameter`. A
    /// message of an unknown form is kept, shortened if it is long.
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

    /// The problem to return for an error at `place`, such as `items[2].role`. If `place` is empty, the error is about
    /// the entire input.
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

/// Shortens a text that may come from a caller. Only the beginning and the end of a long text remain.
pub(super) fn short(text: &str) -> String {
    let length = text.chars().count();
    if length <= 2 * QUOTED_MAX {
        return text.to_owned();
    }
    let head: String = text.chars().take(QUOTED_MAX).collect();
    let tail: String = text.chars().skip(length - QUOTED_MAX).collect();
    format!("{head}…{tail}")
}
