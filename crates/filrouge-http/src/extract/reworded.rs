//! Rewords serde's error messages for callers of the API.

use filrouge_types::ErrorCode;

use crate::problem::Problem;

/// The number of characters that are quoted from each end of a long text of a caller.
const QUOTED_MAX_CHARS: usize = 100;

/// A reworded error, and the list of valid names or values if there is one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RewordedError {
    pub(super) message: String,
    pub(super) valid_values: Option<String>,
    /// Whether the error is about the value of a member. Otherwise it is about an unknown, missing or repeated member.
    pub(super) is_about_value: bool,
}

impl RewordedError {
    /// Rewords a message of serde. `member` is the word for the part of the input: `member` in a body, `parameter` in a
    /// query. A message of an unknown form is kept, shortened if it is long.
    pub(super) fn from_serde(message: &str, member: &str) -> Self {
        let about_member = |message: String, valid_values: Option<&str>| Self {
            message,
            valid_values: valid_values.map(|k| {
                let words = k.trim_start_matches("one of ");
                words.replace(" or ", ", ")
            }),
            is_about_value: false,
        };
        let name_after = |before: &str| message.strip_prefix(before)?.split_once('`');
        if let Some((name, rest)) = name_after("unknown field `") {
            let message = match member {
                "member" => "there is no such member".to_owned(),
                member => format!("there is no {member} {:?}", shorten(name)),
            };
            return about_member(message, rest.strip_prefix(", expected "));
        }
        if let Some((name, _)) = name_after("missing field `") {
            return about_member(format!("the {member} `{name}` is missing"), None);
        }
        if let Some((name, _)) = name_after("duplicate field `") {
            return about_member(format!("the {member} `{name}` is given twice"), None);
        }
        if let Some((_, words)) = name_after("unknown variant `").filter(|_| member == "parameter")
        {
            let valid_values = words.trim_start_matches(", expected ").replace('`', "");
            return Self {
                is_about_value: true,
                ..about_member("not known".to_owned(), Some(&valid_values))
            };
        }
        let (message, valid_values) = match message.rsplit_once("; known: ") {
            Some((message, valid_values)) => (shorten(message), Some(valid_values.to_owned())),
            None => (reword(message), None),
        };
        Self {
            message,
            valid_values,
            is_about_value: true,
        }
    }

    /// Returns the problem for an error at `path`, such as `items[2].role`. If `path` is empty, the error is about
    /// the entire input.
    pub(super) fn into_problem(self, path: &str) -> Problem {
        let detail = if path.is_empty() {
            self.message
        } else {
            format!("{path}: {}", self.message)
        };
        let problem = Problem::new(ErrorCode::Invalid, detail);
        match self.valid_values {
            Some(valid_values) => problem.with_hint(format!("known: {valid_values}")),
            None => problem,
        }
    }
}

/// Rewords a message of the parsers of numbers and booleans, and shortens any other message.
fn reword(message: &str) -> String {
    match message {
        "invalid digit found in string"
        | "cannot parse integer from empty string"
        | "number too large to fit in target type" => "no whole number, 0 or more".to_owned(),
        "provided string was not `true` or `false`" => "neither true nor false".to_owned(),
        _ => shorten(message),
    }
}

/// Shortens a text that may come from a caller. Only the beginning and the end of a long text remain.
pub(super) fn shorten(text: &str) -> String {
    let length = text.chars().count();
    if length <= 2 * QUOTED_MAX_CHARS {
        return text.to_owned();
    }
    let head: String = text.chars().take(QUOTED_MAX_CHARS).collect();
    let tail: String = text.chars().skip(length - QUOTED_MAX_CHARS).collect();
    format!("{head}…{tail}")
}
