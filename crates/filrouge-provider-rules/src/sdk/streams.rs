//! Returns the data that the official SDKs read from a provider's answers. An HTTP server on loopback replaces the
//! provider: it sends the given answers chunk by chunk, and closes the connection early if an answer requires it.

use std::path::Path;

use serde_json::{Value, json};

use super::{SdkError, run_script};
use crate::Provider;

const FILES: &[(&str, &str)] = &[
    ("streams.py", include_str!("../../sdk/streams.py")),
    ("readers.py", include_str!("../../sdk/readers.py")),
    ("report.py", include_str!("../../sdk/report.py")),
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
    pub disconnects: bool,
}

/// The data that an SDK reports when it reads an answer. An SDK has several methods to read the same answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The index of the answer in the slice given to [`read`].
    pub answer: usize,
    /// The method with which the SDK read the answer: `events` (the events of a stream, one by one), `helper` (the
    /// events of a stream, which the SDK itself combines), or `whole` (an answer that is no stream).
    pub method: String,
    /// The data that the SDK returned, up to the end of the answer or an error: `text`, `refusal`, `thoughts`, `calls`,
    /// `others`, `finish`, `usage`, `counts` (tokens of input, output, reasoning, cache read and cache write, without
    /// overlap), `model` and `error`. `StreamReport` in `sdk/report.py` defines them.
    pub reported: Value,
}

/// Reads `answers` with the SDKs, in order, in one run of the script. `directory` has the same meaning as for
/// [`super::check`].
///
/// # Errors
///
/// Any [`SdkError`]. An error that an SDK raises because of an answer is not an error of this function, but part of its
/// [`Reading`].
pub fn read(directory: &Path, answers: &[Answer]) -> Result<Vec<Reading>, SdkError> {
    let stdout = run_script(
        directory,
        "streams",
        FILES,
        answers.iter().map(request_line),
    )?;
    parse_readings(&stdout, answers.len())
}

fn request_line(answer: &Answer) -> Value {
    // One character per byte, because JSON has no type for bytes.
    let text = |chunk: &Vec<u8>| -> String { chunk.iter().copied().map(char::from).collect() };
    json!({
        "format": answer.provider.as_str(),
        "stream": answer.stream,
        "status": answer.status,
        "type": answer.content_type,
        "chunks": answer.chunks.iter().map(text).collect::<Vec<_>>(),
        "drop": answer.disconnects,
    })
}

fn parse_readings(stdout: &[u8], answers: usize) -> Result<Vec<Reading>, SdkError> {
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
        let method = value.get("way").and_then(Value::as_str);
        readings.push(Reading {
            answer,
            method: method.ok_or_else(unexpected)?.to_owned(),
            reported: value
                .get_mut("report")
                .map(Value::take)
                .ok_or_else(unexpected)?,
        });
    }
    let has_all = (0..answers).all(|answer| readings.iter().any(|r| r.answer == answer));
    if read != u64::try_from(answers).ok() || !has_all {
        let description = format!("{read:?} of {answers} answers read");
        return Err(SdkError::Answer(description));
    }
    Ok(readings)
}

#[cfg(test)]
mod tests {
    use super::*;

    const READING: &str = "{\"line\": 1, \"way\": \"events\", \"report\": {\"text\": \"a\"}}\n";

    #[test]
    fn missing_and_surplus_readings_are_errors() {
        let complete = parse_readings(format!("{READING}{{\"read\": 1}}\n").as_bytes(), 1).unwrap();
        assert_eq!(
            (complete.len(), complete[0].reported["text"].as_str()),
            (1, Some("a"))
        );
        for (output, answers) in [
            (String::new(), 1),
            (READING.to_owned(), 1),
            ("{\"read\": 1}".to_owned(), 1),
            (format!("{READING}{{\"read\": 2}}"), 2),
            (format!("{READING}{{\"read\": 0}}"), 0),
            ("Traceback".to_owned(), 1),
        ] {
            let error = parse_readings(output.as_bytes(), answers).unwrap_err();
            assert!(matches!(error, SdkError::Answer(_)), "{output}: {error}");
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
            disconnects: false,
        };
        assert_eq!(
            request_line(&answer)["chunks"],
            json!(["\u{0}\u{7f}\u{ff}"])
        );
    }
}
