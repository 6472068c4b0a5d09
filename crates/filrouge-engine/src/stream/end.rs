//! The ends of a stream.

use filrouge_types::{JsonText, RawJson};

/// The end of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The response ended with an answer.
    Answered,
    /// The response ended with calls whose results the provider waits for, or with a pause: the turn continues.
    Continues,
    /// The response ended with an error, or broke off.
    Failed(StreamError),
    /// The caller that requested the response cancelled it.
    Cancelled,
}

filrouge_types::words!(
    /// The component in which an error occurred.
    pub enum StreamErrorSource: "source of an error" {
        /// The provider reported it.
        Provider => "provider",
        /// The stream is malformed, or ended too early.
        Stream => "stream",
        /// The client that sent the stream is gone.
        Client => "client",
    }
);

/// Codes of errors that would recur for the same stream and caller.
const PERMANENT: [&str; 4] = [
    "credentials",
    "limit_exceeded",
    "stream_malformed",
    "stream_too_large",
];

/// An error that ends a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamError {
    /// A short code: the provider's own, or one of `stream_truncated`, `stream_malformed`, `stream_too_large`, `client_gone`, ….
    pub code: Box<str>,
    /// A message for people.
    pub message: JsonText,
    /// The component in which it occurred.
    pub source: StreamErrorSource,
    /// Whether a retry can help.
    pub retryable: bool,
    /// The original error as JSON.
    pub raw: Option<RawJson>,
}

impl StreamError {
    /// An error of the stream itself, or of its recorder. Its code shows whether a retry can help.
    #[must_use]
    pub fn of_stream(code: &str, message: &str) -> Self {
        Self {
            code: code.into(),
            message: JsonText::from_plain(message),
            source: StreamErrorSource::Stream,
            retryable: !PERMANENT.contains(&code),
            raw: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_transient_error_is_retryable() {
        for (code, retryable) in [
            ("stream_truncated", true),
            ("stream_empty", true),
            ("stream_idle", true),
            ("overloaded", true),
            ("stream_malformed", false),
            ("stream_too_large", false),
            ("credentials", false),
            ("limit_exceeded", false),
        ] {
            let error = StreamError::of_stream(code, "m");
            assert_eq!(error.retryable, retryable, "{code}");
        }
    }
}
