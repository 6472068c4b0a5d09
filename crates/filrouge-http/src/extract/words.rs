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
}

impl Words {
    /// Takes serde's sentence apart; one that is not known stays as it is.
    pub(super) fn of(said: &str) -> Self {
        let plain = |what: String| Self { what, known: None };
        if let Some(rest) = said.strip_prefix("unknown field `") {
            let known = rest.rsplit_once("`, expected ").map(|(_, known)| known);
            return Self {
                what: "there is no such member".to_owned(),
                known: known.map(|k| k.trim_start_matches("one of ").replace(" or ", ", ")),
            };
        }
        let name = said.strip_prefix("missing field `");
        if let Some(name) = name.and_then(|rest| rest.strip_suffix('`')) {
            return plain(format!("the member `{name}` is missing"));
        }
        let name = said.strip_prefix("duplicate field `");
        if let Some(name) = name.and_then(|rest| rest.strip_suffix('`')) {
            return plain(format!("the member `{name}` is there twice"));
        }
        match said.rsplit_once("; known: ") {
            Some((what, known)) => Self {
                what: short(what),
                known: Some(known.to_owned()),
            },
            None => plain(short(said)),
        }
    }

    /// The refusal of what stands at `place`; an empty one is the whole.
    pub(super) fn about(self, place: &str) -> Problem {
        let detail = if place.is_empty() {
            self.what
        } else {
            format!("{place}: {}", self.what)
        };
        let mut problem = Problem::new(ErrorCode::Invalid, detail);
        problem.0.hint = self.known.map(|known| format!("known: {known}"));
        problem
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
