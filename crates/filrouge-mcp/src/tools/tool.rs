//! The trait of tools, and their common parameters.

use filrouge_sources::programs::sources;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::count::Count;
use crate::call::Call;
use crate::refusal::Refusal;
use crate::text::Readable;

/// The maximum number of characters that agents may request on one page.
const PAGE_MAX_CHARS: usize = 1_000_000;

/// A tool: its name, its texts, its parameters, its answer.
pub(super) trait Tool {
    const NAME: &'static str;
    const TITLE: &'static str;
    const DESCRIPTION: &'static str;
    type Arguments: DeserializeOwned + JsonSchema;
    type Answer: Serialize + JsonSchema + Readable;

    fn answer(call: &Call<'_>, arguments: Self::Arguments) -> Result<Self::Answer, Refusal>;
}

/// The parameters of a tool about one session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionArguments {
    /// The session; by default the one you are in, if it is known.
    #[serde(rename = "sessionID")]
    pub(super) session_id: Option<String>,
}

/// Returns the page size in characters that the caller requested; 0, which means the default, if it requested none.
///
/// # Errors
/// [`Refusal`] for an explicit 0, or more than [`PAGE_MAX_CHARS`].
pub(super) fn page_chars(requested: Option<Count>) -> Result<usize, Refusal> {
    match requested.map(|Count(chars)| chars) {
        None => Ok(0),
        Some(0) => Err(Refusal::invalid(
            "maxChars: 0 characters show nothing",
            "leave maxChars out for about 40,000",
        )),
        Some(chars) if chars > PAGE_MAX_CHARS => Err(Refusal::invalid(
            format!("maxChars: {chars} is more than {PAGE_MAX_CHARS}"),
            "ask for a page at a time: nextCursor continues",
        )),
        Some(chars) => Ok(chars),
    }
}

/// Returns the maximum number of rows that the caller requested in the parameter `name`; 0, which means the default, if
/// it requested none.
///
/// # Errors
/// [`Refusal`] for an explicit 0, which would show nothing.
pub(super) fn row_limit(name: &str, requested: Option<Count>) -> Result<usize, Refusal> {
    match requested.map(|Count(number)| number) {
        Some(0) => Err(Refusal::invalid(
            format!("{name}: 0 shows nothing"),
            format!("leave {name} out for the default"),
        )),
        requested => Ok(requested.unwrap_or(0)),
    }
}

/// The program that recorded a history.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(extend("enum" = sources().collect::<Vec<_>>()))]
pub(super) struct Program(pub(super) String);

impl TryFrom<String> for Program {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        match sources().any(|known| known == name) {
            true => Ok(Self(name)),
            false => {
                let known = sources().collect::<Vec<_>>().join(", ");
                Err(format!("{name:?} is no source, expected one of {known}"))
            }
        }
    }
}
