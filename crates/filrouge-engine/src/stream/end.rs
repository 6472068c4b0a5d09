//! The ends of a stream.

use filrouge_types::{JsonText, RawJson};

/// The end of the response that a stream delivers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEnd {
    /// The response ended with an answer.
    Answered,
    /// The response ended with tool calls for whose results the provider waits, or with a pause. The turn continues
    /// with another response.
    Continues,
    /// The response ended with an error, or broke off.
    Failed(StreamError),
    /// The caller that had requested the response cancelled it.
    Cancelled,
}

filrouge_types::words!(
    /// The component in which an error occurred.
    pub enum StreamErrorSource: "source of an error" {
        /// The provider reported the error.
        Provider => "provider",
        /// The stream is malformed, or ended too early.
        Stream => "stream",
        /// The client that sent the stream is gone.
        Client => "client",
    }
);

/// Codes of errors that would occur again if the same caller sent the same stream again.
const PERMANENT: [&str; 4] = [
    "credentials",
    "limit_exceeded",
    "stream_malformed",
    "stream_too_large",
];

/// An error that ends a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamError {
    /// A short code: the provider's own, or one of `stream_truncated`, `stream_malformed`, `stream_too_large`,
    /// `client_gone`, ….
    pub code: Box<str>,
    /// A message for people.
    pub message: JsonText,
    /// The component in which the error occurred.
    pub source: StreamErrorSource,
    /// Whether a retry can help.
    pub retryable: bool,
    /// The provider's error as JSON, if it reported one.
    pub raw: Option<RawJson>,
}

impl StreamError {
    /// An error of the stream itself, or of its recorder. Its code shows whether a retry can help.
    pub fn new(code: &str, message: &str) -> Self {
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
            let error = StreamError::new(code, "m");
            assert_eq!(error.retryable, retryable, "{code}");
        }
    }
}
