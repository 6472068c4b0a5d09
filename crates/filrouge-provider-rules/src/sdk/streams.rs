//! Shows how the official SDKs read a provider's answers. An HTTP server on loopback takes the provider's place: it
//! sends the given answers chunk by chunk, and closes the connection early if an answer requires it.

use std::path::Path;

use serde_json::{Value, json};

use super::{SdkError, ask};
use crate::Provider;

const FILES: &[(&str, &str)] = &[
    ("streams.py", include_str!("../../sdk/streams.py")),
    ("readers.py", include_str!("../../sdk/readers.py")),
    ("told.py", include_str!("../../sdk/told.py")),
];

/// An answer of a provider, as the server on loopback sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The provider whose SDK sends the request.
    pub provider: Provider,
    /// Whether the SDK requests a stream.
    pub stream: bool,
    /// The HTTP status.
    pub status: u16,
    /// The `Content-Type`.
    pub content_type: String,
    /// The body. Each element is one chunk of HTTP's chunked transfer coding; empty elements are left out.
    pub chunks: Vec<Vec<u8>>,
    /// Whether the connection is closed after these chunks, without the last chunk that the coding requires.
    pub dropped: bool,
}

/// What an SDK reports when it reads an answer. An SDK can read the same answer in several ways.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The index of the answer in the slice given to [`read`].
    pub answer: usize,
    /// The way in which the SDK read the answer: `events` (the events of a stream, one by one), `helper` (the events of
    /// a stream, which the SDK itself combines), or `whole` (an answer that is no stream).
    pub way: String,
    /// What the SDK returned, up to the end of the answer or an error: `text`, `refusal`, `thoughts`, `calls`,
    /// `others`, `finish`, `usage`, `counts` (tokens of input, output, reasoning, cache read and cache write, without
    /// overlap), `model` and `error`. `Told` in `sdk/told.py` defines them.
    pub reported: Value,
}

/// Lets the SDKs read `answers`, in order, in one run of the script. `directory` has the same meaning as for
/// [`super::check`].
///
/// # Errors
///
/// Any [`SdkError`]. An error that an SDK raises because of an answer is not an error of this function, but part of its
/// [`Reading`].
pub fn read(directory: &Path, answers: &[Answer]) -> Result<Vec<Reading>, SdkError> {
    let stdout = ask(directory, "streams", FILES, answers.iter().map(line))?;
    readings(&stdout, answers.len())
}

fn line(answer: &Answer) -> Value {
    let text = |chunk: &Vec<u8>| -> String { chunk.iter().copied().map(char::from).collect() };
    json!({
        "format": answer.provider.as_str(),
        "stream": answer.stream,
        "status": answer.status,
        "type": answer.content_type,
        "chunks": answer.chunks.iter().map(text).collect::<Vec<_>>(),
        "drop": answer.dropped,
    })
}

fn readings(stdout: &[u8], answers: usize) -> Result<Vec<Reading>, SdkError> {
    let mut readings: Vec<Reading> = Vec::new();
    let mut read = None;
    for line in String::from_utf8_lossy(stdout).lines() {
        let unexpected = || SdkError::Answer(line.to_owned());
        let mut value: Value = serde_json::from_str(line).map_err(|_| unexpected())?;
        if let Some(count) = value.get("read").and_then(Value::as_u64) {
            read = Some(count);
            continue;
        }
        let number = value.get("line").and_then(Value::as_u64);
        let answer = number
            .and_then(|number| usize::try_from(number).ok()?.checked_sub(1))
            .filter(|answer| *answer < answers)
            .ok_or_else(unexpected)?;
        let way = value.get("way").and_then(Value::as_str);
        readings.push(Reading {
            answer,
            way: way.ok_or_else(unexpected)?.to_owned(),
            reported: value
                .get_mut("told")
                .map(Value::take)
                .ok_or_else(unexpected)?,
        });
    }
    let has_all = (0..answers).all(|answer| readings.iter().any(|r| r.answer == answer));
    if read != u64::try_from(answers).ok() || !has_all {
        let what = format!("{read:?} of {answers} answers read");
        return Err(SdkError::Answer(what));
    }
    Ok(readings)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "{\"line\": 1, \"way\": \"events\", \"told\": {\"text\": \"a\"}}\n";

    #[test]
    fn missing_and_surplus_readings_are_errors() {
        let whole = readings(format!("{ONE}{{\"read\": 1}}\n").as_bytes(), 1).unwrap();
        assert_eq!(
            (whole.len(), whole[0].reported["text"].as_str()),
            (1, Some("a"))
        );
        for (short, answers) in [
            (String::new(), 1),
            (ONE.to_owned(), 1),
            ("{\"read\": 1}".to_owned(), 1),
            (format!("{ONE}{{\"read\": 2}}"), 2),
            (format!("{ONE}{{\"read\": 0}}"), 0),
            ("Traceback".to_owned(), 1),
        ] {
            let error = readings(short.as_bytes(), answers).unwrap_err();
            assert!(matches!(error, SdkError::Answer(_)), "{short}: {error}");
        }
    }

    #[test]
    fn chunks_keep_their_bytes() {
        let answer = Answer {
            provider: Provider::Gemini,
            stream: true,
            status: 200,
            content_type: "text/event-stream".to_owned(),
            chunks: vec![vec![0, 0x7f, 0xff]],
            dropped: false,
        };
        assert_eq!(line(&answer)["chunks"], json!(["\u{0}\u{7f}\u{ff}"]));
    }
}
