//! The trait of tools, and their common parameters.

use std::ops::RangeInclusive;

use filrouge_sources::programs::sources;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::count::Count;
use crate::call::Call;
use crate::refusal::{Refusal, Result};
use crate::text::{Readable, provenance};

/// The maximum number of characters that agents may request on one page.
const PAGE_MAX_CHARS: usize = 1_000_000;

/// The maximum size in bytes, as text and as JSON, of an answer whose caller did not request a size: about 2,000 tokens.
pub(super) const ANSWER_BYTES: usize = 8_000;

/// The sizes of a page of text in characters that [`fit`] tries. A smaller page would have more ids than text.
const PAGE_CHARS: RangeInclusive<usize> = 500..=ANSWER_BYTES;

/// A tool: its name, its texts, its parameters, its answer.
pub(super) trait Tool {
    const NAME: &'static str;
    const TITLE: &'static str;
    const DESCRIPTION: &'static str;
    type Arguments: DeserializeOwned + JsonSchema;
    type Answer: Serialize + JsonSchema + Readable;

    fn answer(call: &Call<'_>, arguments: Self::Arguments) -> Result<Self::Answer>;
}

/// The parameters of a tool about one session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionArguments {
    /// The session; by default the one you are in, if it is known.
    #[serde(rename = "sessionID")]
    pub(super) session_id: Option<String>,
}

/// Returns `answer(chars)` for a page of the size in characters that the caller requested in `maxChars`; without one, of
/// a size that [`fit`] finds.
///
/// # Errors
/// Those of [`page_chars`] and of `answer`.
pub(super) fn page<A: Serialize + Readable>(
    requested: Option<Count>,
    answer: impl Fn(usize) -> Result<A>,
) -> Result<A> {
    match page_chars(requested)? {
        Some(chars) => answer(chars),
        None => fit(PAGE_CHARS, ANSWER_BYTES, answer),
    }
}

/// Returns `answer(size)` with a size of `sizes`: the greatest one, or a smaller one if that answer would exceed
/// `max_bytes`. With the smallest size, an answer may be larger.
///
/// # Errors
/// Those of `answer`.
pub(super) fn fit<A: Serialize + Readable>(
    sizes: RangeInclusive<usize>,
    max_bytes: usize,
    answer: impl Fn(usize) -> Result<A>,
) -> Result<A> {
    let (least, mut size) = sizes.into_inner();
    loop {
        let fitted = answer(size)?;
        let bytes = answer_bytes(&fitted);
        if bytes <= max_bytes || size <= least {
            return Ok(fitted);
        }
        // A tenth less than in proportion: some bytes do not depend on the size.
        size = (size.saturating_mul(max_bytes) / bytes * 9 / 10).clamp(least, size - 1);
    }
}

/// The size of an answer in bytes: as text or as JSON, whichever is larger. Clients pass either to their model.
fn answer_bytes<A: Serialize + Readable>(answer: &A) -> usize {
    let mut text = provenance(&answer.origin());
    let json = serde_json::to_string(answer).map_or(0, |json| text.len() + json.len());
    answer.write(&mut text);
    json.max(text.len())
}

/// Returns the page size in characters that the caller requested; `None` if it requested none.
///
/// # Errors
/// [`Refusal`] for an explicit 0, or more than [`PAGE_MAX_CHARS`].
pub(super) fn page_chars(requested: Option<Count>) -> Result<Option<usize>> {
    match requested.map(|Count(chars)| chars) {
        Some(0) => Err(Refusal::invalid(
            "maxChars: 0 characters show nothing",
            "leave maxChars out for the default",
        )),
        Some(chars) if chars > PAGE_MAX_CHARS => Err(Refusal::invalid(
            format!("maxChars: {chars} is more than {PAGE_MAX_CHARS}"),
            "ask for a page at a time: nextCursor continues",
        )),
        chars => Ok(chars),
    }
}

/// Returns the maximum number of rows that the caller requested in the parameter `name`; 0, which means the default, if
/// it requested none.
///
/// # Errors
/// [`Refusal`] for an explicit 0, which would show nothing.
pub(super) fn row_limit(name: &str, requested: Option<Count>) -> Result<usize> {
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
